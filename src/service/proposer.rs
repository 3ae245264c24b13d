//! The one place where a request becomes a command and goes to Raft.

use super::session::Session;
use raft::{Node, NodeId, ProposeError, Proposed};
use std::sync::Arc;
use storage::Command;
use storage::command::{Change, Name, Origin};
use storage::runtime::Runtime;
use tokio::time::Instant;

/// Proposes changes in the name of this node.
pub(super) struct Proposer {
    node: Node,
    node_id: NodeId,
    /// The wall clock: a command carries the time for display only.
    runtime: Arc<dyn Runtime>,
}

impl Proposer {
    pub(super) fn new(node: Node, node_id: NodeId, runtime: Arc<dyn Runtime>) -> Self {
        Self { node, node_id, runtime }
    }

    /// Proposes a change, and waits until this node has applied it.
    pub(super) async fn propose(
        &self,
        session: &Session,
        change: Change,
        deadline: Instant,
    ) -> Result<Proposed, ProposeError> {
        let origin =
            Origin { node: self.node_id, peer: Name::clone(&session.peer), unix_ms: self.runtime.unix_ms() };
        self.node.propose(Command { origin, change }, deadline).await
    }
}
