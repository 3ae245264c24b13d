//! Leadership transfer.

use super::to_its_end;
use crate::api::{NodeId, ProposeError};
use crate::consensus::raft::{Raft, matched};
use crate::leader::leadership::Leadership;
use crate::local::LocalNode;
use crate::peer::message::{Reply, Request};
use crate::peer::peers::Peers;
use crate::proposals::leader_client::LeaderClient;
use crate::proposals::outcome::ProposalOutcome;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Longest wait until the successor's log equals the leader's. The leader proposes nothing meanwhile.
const EQUAL_MAX: Duration = Duration::from_millis(1000);
/// Between two looks at it.
const EQUAL_PAUSE: Duration = Duration::from_millis(5);

/// Transfers leadership.
pub(crate) struct LeadershipTransfer {
    local: Arc<LocalNode>,
    raft: Raft,
    leadership: Arc<Leadership>,
    peers: Arc<Peers>,
    leader: Arc<LeaderClient>,
}

impl LeadershipTransfer {
    /// The transfers of this node.
    pub(crate) fn new(
        local: Arc<LocalNode>,
        raft: Raft,
        leadership: Arc<Leadership>,
        peers: Arc<Peers>,
        leader: Arc<LeaderClient>,
    ) -> Self {
        Self { local, raft, leadership, peers, leader }
    }

    /// Transfers leadership to a voter, through the leader wherever it is, and waits until the voter leads. `to`: `None`
    /// for the voter with the longest log. Gives the new leader.
    pub(crate) async fn transfer(
        self: &Arc<Self>,
        to: Option<NodeId>,
        deadline: Instant,
    ) -> Result<NodeId, ProposeError> {
        let here = || self.transfer_own(to, deadline);
        let request = |time_left_ms| Request::TransferLeadership { to, time_left_ms };
        let done = |reply| match reply {
            Reply::Transferred { leader } => Ok(leader),
            other => Err(other),
        };
        self.leader.ask(deadline, here, request, done).await.into_result()
    }

    /// The leader's part: transfers this node's leadership. Goes on when the caller stops waiting.
    pub(crate) async fn transfer_own(
        self: &Arc<Self>,
        to: Option<NodeId>,
        deadline: Instant,
    ) -> ProposalOutcome<NodeId> {
        let this = Arc::clone(self);
        to_its_end(&self.local, async move { this.carry_out(to, deadline).await }).await
    }

    async fn carry_out(&self, to: Option<NodeId>, deadline: Instant) -> ProposalOutcome<NodeId> {
        let me = self.local.id();
        let before = self.leadership.state();
        if before.leader != Some(me) {
            return ProposalOutcome::NotLeader("this node does not lead".into());
        }
        if to == Some(me) {
            return ProposalOutcome::Done(me);
        }
        let Some(successor) = self.successor(to) else {
            return ProposalOutcome::Refused(match to {
                Some(id) => format!("node {id} is not a voter that is reached"),
                None => "there is no other voter that is reached".into(),
            });
        };
        self.leadership.begin_transfer(before.term);
        let by = deadline.min(Instant::now() + EQUAL_MAX);
        if !self.wait_until_equal(successor, by).await {
            self.leadership.cancel_transfer();
            return ProposalOutcome::Refused(format!("the log of node {successor} does not catch up"));
        }
        if let Err(e) = self.raft.trigger().transfer_leader(successor).await {
            return ProposalOutcome::Refused(e.to_string());
        }
        let mut changes = self.leadership.subscribe();
        let elected = changes.wait_for(|now| now.term > before.term && now.leader.is_some());
        match timeout_at(deadline, elected).await {
            Ok(Ok(now)) => match now.leader {
                Some(leader) if leader == successor => ProposalOutcome::Done(leader),
                Some(other) => ProposalOutcome::Refused(format!("node {other} was elected instead")),
                None => ProposalOutcome::Unknown("no leader is known".into()),
            },
            _ => ProposalOutcome::Unknown(format!("node {successor} was not elected in time")),
        }
    }

    /// A reachable voter to transfer to: the wanted one, or the one with the longest log.
    fn successor(&self, wanted: Option<NodeId>) -> Option<NodeId> {
        let members = self.local.members.load();
        let mut candidates = matched(&self.raft);
        candidates.retain(|(id, _)| {
            *id != self.local.id()
                && members.is_voter(*id)
                && self.peers.is_reachable(*id)
                && wanted.is_none_or(|wanted| wanted == *id)
        });
        candidates.into_iter().max_by_key(|(_, last)| *last).map(|(id, _)| id)
    }

    async fn wait_until_equal(&self, successor: NodeId, by: Instant) -> bool {
        loop {
            let last = self.local.log.state().last;
            if matched(&self.raft).contains(&(successor, last)) {
                return true;
            }
            if Instant::now() >= by {
                return false;
            }
            sleep(EQUAL_PAUSE).await;
        }
    }
}
