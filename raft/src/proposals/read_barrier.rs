//! Reads that see everything acknowledged before them.

use crate::api::ReadError;
use crate::leader::core::Core;
use crate::peer::connection::Limit;
use crate::peer::handshake::Lane;
use crate::peer::message::{Reply, Request};
use crate::proposals::proposer::time_left_ms;
use openraft::errors::{LinearizableReadError, RaftError};
use openraft::{LinearizerOption, ReadPolicy};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

impl Core {
    /// Read barrier: asks the leader for an index (which it confirms with a quorum), and waits until this node has
    /// applied it. Asking again does no harm, so it is tried until the deadline.
    pub(crate) async fn read_barrier(&self, deadline: Instant) -> Result<u64, ReadError> {
        loop {
            if self.context.stop.is_cancelled() {
                return Err(ReadError::Stopping);
            }
            if Instant::now() >= deadline {
                return Err(ReadError::NoLeader);
            }
            let index = match self.leader_to_ask() {
                None => None,
                Some(leader) if leader == self.id() => self.read_index(deadline).await,
                Some(leader) => {
                    let request = Request::Barrier { time_left_ms: time_left_ms(deadline) };
                    let peer = self.peers.peer(leader);
                    match peer.call(Lane::Call, &request, Limit::Deadline(deadline)).await {
                        Ok(Reply::Barrier { index }) => Some(index),
                        _ => None,
                    }
                }
            };
            match index {
                Some(index) => {
                    self.wait_applied(index, deadline).await?;
                    return Ok(index);
                }
                None => self.leader_pause(deadline).await,
            }
        }
    }

    /// On the leader: how far the log is committed, after a quorum has confirmed that it still leads.
    async fn read_index(&self, deadline: Instant) -> Option<u64> {
        let left = deadline.saturating_duration_since(Instant::now());
        let option = LinearizerOption::from(ReadPolicy::ReadIndex).with_wait_timeout(left);
        match timeout_at(deadline, self.raft.get_read_log_id(option)).await {
            Ok(Ok((read, _))) => Some(read.index()),
            Ok(Err(RaftError::APIError(
                LinearizableReadError::ForwardToLeader(_) | LinearizableReadError::QuorumNotEnough(_),
            )))
            | Err(_) => None,
            Ok(Err(RaftError::Fatal(e))) => {
                tracing::debug!("read barrier: {e}");
                None
            }
        }
    }

    /// Answers a read barrier of another node.
    pub(crate) async fn barrier_for(&self, time_left_ms: u64) -> Reply {
        let deadline = Instant::now() + Duration::from_millis(time_left_ms);
        match self.read_index(deadline).await {
            Some(index) => Reply::Barrier { index },
            None => Reply::NotLeader,
        }
    }
}
