//! Handlers of the calls that nodes make beside Raft's own requests.

use super::wrong_channel;
use crate::health::state_check::StateCheck;
use crate::local::LocalNode;
use crate::membership::bootstrap::Bootstrap;
use crate::membership::changes::MemberChanges;
use crate::membership::transfer::LeadershipTransfer;
use crate::peer::authorize::is_member;
use crate::peer::message::{Reply, Request};
use crate::peer::node_info::NodeInfo;
use crate::proposals::proposer::Proposer;
use crate::proposals::read_barrier::ReadBarrier;
use crate::proposals::wire;
use std::sync::Arc;
use std::time::Duration;
use storage::Command;
use tokio::time::Instant;

/// Handles the calls that nodes make beside Raft's own requests.
pub(crate) struct CallRpc {
    pub(crate) local: Arc<LocalNode>,
    pub(crate) proposer: Arc<Proposer>,
    pub(crate) read_barrier: Arc<ReadBarrier>,
    pub(crate) transfer: Arc<LeadershipTransfer>,
    pub(crate) changes: Arc<MemberChanges>,
    pub(crate) bootstrap: Arc<Bootstrap>,
    pub(crate) state_check: Arc<StateCheck>,
}

impl CallRpc {
    /// Handles one call. Nothing is forwarded a second time: a node that does not lead replies so.
    pub(crate) async fn handle(&self, from: &NodeInfo, request: Request) -> Reply {
        if matches!(request, Request::BootstrapInfo) {
            return Reply::BootstrapInfo(self.bootstrap.info());
        }
        if !is_member(&self.local, from) {
            return Reply::Unavailable(format!("node {} is not a member", from.node_id));
        }
        match request {
            Request::Propose { command, time_left_ms } => {
                self.propose(*command, deadline(time_left_ms)).await
            }
            Request::ReadIndex { time_left_ms } => {
                let outcome = self.read_barrier.read_index(deadline(time_left_ms)).await;
                wire::reply(outcome, |index| Reply::ReadIndex { index })
            }
            Request::TransferLeadership { to, time_left_ms } => {
                let outcome = self.transfer.transfer_own(to, deadline(time_left_ms)).await;
                wire::reply(outcome, |leader| Reply::Transferred { leader })
            }
            Request::ChangeMembers { change, time_left_ms } => {
                let outcome = self.changes.change_here(from.node_id, change, deadline(time_left_ms)).await;
                wire::reply(outcome, |()| Reply::MembersChanged)
            }
            Request::StateHash { index } => Reply::StateHash(self.state_check.hash_at(index).await),
            Request::Diverged { index } => {
                self.state_check.record_divergence(from.node_id, index);
                Reply::Noted
            }
            _ => wrong_channel(),
        }
    }

    async fn propose(&self, command: Command, deadline: Instant) -> Reply {
        if self.local.lifecycle.is_stopping() {
            // Another node may lead in a moment: the sender asks again.
            return Reply::Unavailable("the node is stopping".into());
        }
        let outcome = self.proposer.submit(command, None, deadline).await;
        wire::reply(outcome, |proposed| Reply::Proposed {
            position: proposed.position,
            outcome: proposed.outcome,
        })
    }
}

fn deadline(time_left_ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(time_left_ms)
}
