//! The open connections, so that others can close one.

use super::worker::Answer;
use crate::liveness::SessionId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// What others tell a connection.
#[derive(Debug)]
pub(super) enum ToConnection {
    /// An answer to write. Boxed: each connection's channel has room for many from the start.
    Answer(Box<Answer>),
    /// To end.
    Close(Why),
}

/// Why a connection is told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Its broker expired.
    Expired,
    /// The server stops.
    Stopping,
    /// This node is no member of the cluster any more.
    Removed,
}

/// Sorted: who is told first when all are told to end follows from nothing but who came first.
type Open = BTreeMap<SessionId, mpsc::UnboundedSender<ToConnection>>;

/// The open connections by session.
#[derive(Debug, Clone, Default)]
pub(super) struct Registry(Arc<Mutex<Open>>);

impl Registry {
    pub(super) fn add(&self, session: SessionId, to: mpsc::UnboundedSender<ToConnection>) {
        self.open().insert(session, to);
    }

    pub(super) fn remove(&self, session: SessionId) {
        self.open().remove(&session);
    }

    /// Tells one connection to end; one that is gone already is fine.
    pub(super) fn close(&self, session: SessionId, why: Why) {
        if let Some(to) = self.open().get(&session) {
            let _ = to.send(ToConnection::Close(why));
        }
    }

    /// Tells all connections to end.
    pub(super) fn close_all(&self, why: Why) {
        for to in self.open().values() {
            let _ = to.send(ToConnection::Close(why));
        }
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
