//! Reads that see everything acknowledged before them: Raft's ReadIndex.

use super::leader_client::LeaderClient;
use super::outcome::ProposalOutcome;
use crate::api::ReadError;
use crate::consensus::applied_state::AppliedStatePublisher;
use crate::consensus::raft::Raft;
use crate::local::LocalNode;
use crate::peer::message::{Reply, Request};
use openraft::errors::{LinearizableReadError, RaftError};
use openraft::{LinearizerOption, ReadPolicy};
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};

/// Gives a read index, at the leader or through it.
pub(crate) struct ReadBarrier {
    local: Arc<LocalNode>,
    raft: Raft,
    applied: Arc<AppliedStatePublisher>,
    leader: Arc<LeaderClient>,
}

impl ReadBarrier {
    /// The read barrier of this node.
    pub(crate) fn new(
        local: Arc<LocalNode>,
        raft: Raft,
        applied: Arc<AppliedStatePublisher>,
        leader: Arc<LeaderClient>,
    ) -> Self {
        Self { local, raft, applied, leader }
    }

    /// Asks the leader for an index, and waits until this node has applied it.
    pub(crate) async fn wait(&self, deadline: Instant) -> Result<u64, ReadError> {
        let index = self.index(deadline).await?;
        self.applied.wait_for(index, deadline, &self.local.lifecycle.stop).await?;
        Ok(index)
    }

    /// Asks the leader for an index, which it confirms with a quorum: all that was acknowledged anywhere before is not
    /// behind it.
    pub(crate) async fn index(&self, deadline: Instant) -> Result<u64, ReadError> {
        let done = |reply| match reply {
            Reply::ReadIndex { index } => Ok(index),
            other => Err(other),
        };
        let request = |time_left_ms| Request::ReadIndex { time_left_ms };
        loop {
            match self.leader.ask(deadline, || self.read_index(deadline), request, done).await {
                ProposalOutcome::Done(index) => return Ok(index),
                // A read index changes nothing, so it is safe to ask again.
                ProposalOutcome::Unknown(_) if Instant::now() < deadline => self.leader.pause(deadline).await,
                _ if self.local.lifecycle.is_stopping() => return Err(ReadError::Stopping),
                _ => return Err(ReadError::NoLeader),
            }
        }
    }

    /// On the leader: how far the log is committed, once a quorum has confirmed that this node still leads.
    pub(crate) async fn read_index(&self, deadline: Instant) -> ProposalOutcome<u64> {
        let left = deadline.saturating_duration_since(Instant::now());
        let option = LinearizerOption::from(ReadPolicy::ReadIndex).with_wait_timeout(left);
        let not_confirmed = match timeout_at(deadline, self.raft.get_read_log_id(option)).await {
            Ok(Ok((read, _))) => return ProposalOutcome::Done(read.index()),
            Ok(Err(RaftError::APIError(
                LinearizableReadError::ForwardToLeader(_) | LinearizableReadError::QuorumNotEnough(_),
            )))
            | Err(_) => "no quorum confirmed that this node leads".to_owned(),
            Ok(Err(RaftError::Fatal(e))) => e.to_string(),
        };
        ProposalOutcome::NotLeader(not_confirmed)
    }
}
