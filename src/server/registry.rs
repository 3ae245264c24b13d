//! The open connections, so that other tasks can close them.

use super::message::{CloseReason, ToConnection};
use crate::liveness::SessionId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// Sorted by session, so that a simulation closes connections in the same order in each run.
type Connections = BTreeMap<SessionId, mpsc::UnboundedSender<ToConnection>>;

/// The open connections by session.
#[derive(Debug, Clone, Default)]
pub(super) struct Registry(Arc<Mutex<Connections>>);

impl Registry {
    pub(super) fn add(&self, session: SessionId, connection: mpsc::UnboundedSender<ToConnection>) {
        self.connections().insert(session, connection);
    }

    pub(super) fn remove(&self, session: SessionId) {
        self.connections().remove(&session);
    }

    /// Closes one connection, if it is still open.
    pub(super) fn close(&self, session: SessionId, reason: CloseReason) {
        if let Some(connection) = self.connections().get(&session) {
            let _ = connection.send(ToConnection::Close(reason));
        }
    }

    /// Closes all connections.
    pub(super) fn close_all(&self, reason: CloseReason) {
        for connection in self.connections().values() {
            let _ = connection.send(ToConnection::Close(reason));
        }
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
