//! Messages between nodes beside the log.

use crate::api::NodeId;
use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;

/// Handles messages that other nodes send beside the log (reports of liveness).
pub trait PeerMessages: Send + Sync + 'static {
    /// Answers one message. Messages of one sender and channel arrive in order, one at a time.
    fn handle(&self, from: NodeId, message: Bytes) -> Pin<Box<dyn Future<Output = Bytes> + Send + '_>>;
}

/// Why a message got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no answer from node {to}: {reason}")]
pub struct MessageError {
    /// The node that was asked.
    pub to: NodeId,
    /// Why.
    pub reason: String,
}
