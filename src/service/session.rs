//! The connection that a request came over, as far as the service needs it.

use crate::liveness::SessionId;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::command::Name;
use tokio::sync::Semaphore;

/// A connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// Address of the peer.
    pub(crate) peer: Name,
    unregister_count: AtomicU64,
    /// One permit: a large reply is made when the one before it was sent.
    pub(super) large_reply: Arc<Semaphore>,
}

impl Session {
    pub(crate) fn new(id: SessionId, peer: SocketAddr) -> Self {
        Self {
            id,
            peer: peer.to_string().into(),
            unregister_count: AtomicU64::new(0),
            large_reply: Arc::new(Semaphore::new(1)),
        }
    }

    /// UNREGISTER requests that have come over the connection: a registration that came before one must not undo it.
    pub(super) fn unregister_count(&self) -> u64 {
        self.unregister_count.load(Ordering::Relaxed)
    }

    pub(super) fn count_unregister(&self) {
        self.unregister_count.fetch_add(1, Ordering::Relaxed);
    }
}
