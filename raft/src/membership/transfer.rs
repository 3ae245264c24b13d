//! Handing leadership over.

use crate::api::{NodeId, ProposeError};
use crate::leader::core::Core;
use crate::peer::connection::{CallError, Limit};
use crate::peer::handshake::Lane;
use crate::peer::message::{Reply, Request};
use crate::proposals::proposer::time_left_ms;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Longest wait for the successor's log to equal the leader's, with new commands held back.
const EQUAL_MAX: Duration = Duration::from_millis(1000);
/// Between two looks at it.
const EQUAL_PAUSE: Duration = Duration::from_millis(5);

impl Core {
    /// Hands leadership to a voter, through the leader wherever that is, and waits until it leads.
    pub(crate) async fn transfer(
        &self,
        to: Option<NodeId>,
        deadline: Instant,
    ) -> Result<NodeId, ProposeError> {
        loop {
            let reply = match self.leader_to_ask() {
                None => None,
                Some(leader) if leader == self.id() => Some(self.transfer_for(to, deadline).await),
                Some(leader) => {
                    let request = Request::Transfer { to, time_left_ms: time_left_ms(deadline) };
                    match self.peers.peer(leader).call(Lane::Call, &request, Limit::Deadline(deadline)).await
                    {
                        Ok(reply) => Some(reply),
                        Err(CallError::NotSent(_)) => None,
                        Err(e) => return Err(ProposeError::Unknown(e.to_string())),
                    }
                }
            };
            match reply {
                Some(Reply::Transferred { leader }) => return Ok(leader),
                Some(Reply::Refused(reason)) => return Err(ProposeError::Refused(reason)),
                Some(Reply::Unknown(reason)) => return Err(ProposeError::Unknown(reason)),
                _ if Instant::now() >= deadline => {
                    return Err(ProposeError::Refused("no leader is known".into()));
                }
                _ => self.leader_pause(deadline).await,
            }
        }
    }

    /// The leader's part.
    pub(crate) async fn transfer_for(&self, to: Option<NodeId>, deadline: Instant) -> Reply {
        let leadership = self.leadership();
        if leadership.leader != Some(self.id()) {
            return Reply::NotLeader;
        }
        if to == Some(self.id()) {
            return Reply::Transferred { leader: self.id() };
        }
        let Some(successor) = self.successor(to) else {
            let reason = match to {
                Some(id) => format!("node {id} is not a voter that is reached"),
                None => "there is no other voter that is reached".into(),
            };
            return Reply::Refused(reason);
        };
        // From here on this node proposes nothing and claims no lease in this term: the successor may win at once.
        self.handed_over.store(leadership.term, Ordering::Release);
        let by = deadline.min(Instant::now() + EQUAL_MAX);
        if !self.wait_equal(successor, by).await {
            self.handed_over.store(0, Ordering::Release);
            return Reply::Refused(format!("the log of node {successor} does not catch up"));
        }
        if let Err(e) = self.raft.trigger().transfer_leader(successor).await {
            return Reply::Refused(e.to_string());
        }
        let mut changes = self.leadership.subscribe();
        let taken = changes.wait_for(|now| now.term > leadership.term && now.leader.is_some());
        match timeout_at(deadline, taken).await {
            Ok(Ok(now)) => match now.leader {
                Some(leader) if leader == successor => Reply::Transferred { leader },
                other => Reply::Refused(format!("node {other:?} took over instead")),
            },
            _ => Reply::Unknown(format!("node {successor} has not taken over in time")),
        }
    }

    /// A reachable voter to hand over to: the one asked for, or the one that is furthest.
    fn successor(&self, to: Option<NodeId>) -> Option<NodeId> {
        let members = self.context.members.load();
        let voters: Vec<NodeId> = members.effective.voter_ids().collect();
        let mut matched = self.matched();
        matched.retain(|(id, _)| {
            *id != self.id()
                && voters.contains(id)
                && self.peers.is_reachable(*id)
                && to.is_none_or(|to| to == *id)
        });
        matched.into_iter().max_by_key(|(_, matched)| *matched).map(|(id, _)| id)
    }

    async fn wait_equal(&self, successor: NodeId, by: Instant) -> bool {
        loop {
            let last = self.context.log.state().last;
            if self.matched().iter().any(|(id, matched)| *id == successor && *matched == last) {
                return true;
            }
            if Instant::now() >= by {
                return false;
            }
            sleep(EQUAL_PAUSE).await;
        }
    }
}
