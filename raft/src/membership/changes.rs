//! Changes of the membership: learners join, voters are promoted, members are removed.

use super::to_its_end;
use crate::api::{MemberChange, NodeId, ProposeError};
use crate::consensus::raft::{Raft, matched};
use crate::consensus::types::Types;
use crate::leader::leadership::Leadership;
use crate::local::{Contact, LocalNode};
use crate::peer::message::{Reply, Request, WireMemberChange};
use crate::peer::peers::Peers;
use crate::proposals::leader_client::LeaderClient;
use crate::proposals::outcome::ProposalOutcome;
use openraft::ChangeMembers;
use openraft::errors::{ClientWriteError, RaftError};
use openraft::raft::ClientWriteResponse;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// A learner this close to the leader has caught up.
const CAUGHT_UP_ENTRIES: u64 = 100;
/// Between two looks at whether it has, or whether a change is visible here.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// How long a change that is committed may take until it is visible here.
const VISIBLE_MAX: Duration = Duration::from_secs(1);

/// openraft's result of a change.
type ChangeResult = Result<ClientWriteResponse<Types>, RaftError<Types, ClientWriteError<Types>>>;

impl From<MemberChange> for WireMemberChange {
    fn from(change: MemberChange) -> Self {
        match change {
            MemberChange::AddLearner(m) => Self::AddLearner { id: m.id, address: m.address },
            MemberChange::Promote(id) => Self::Promote { id },
            MemberChange::Remove(id) => Self::Remove { id },
            MemberChange::Replace { old, new } => Self::Replace { old, id: new.id, address: new.address },
        }
    }
}

impl fmt::Display for WireMemberChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddLearner { id, address } => write!(f, "node {id} at {address} joins as a learner"),
            Self::Promote { id } => write!(f, "node {id} becomes a voter"),
            Self::Remove { id } => write!(f, "node {id} is removed"),
            Self::Replace { old, id, address } => write!(f, "node {id} at {address} replaces node {old}"),
        }
    }
}

/// Changes the membership.
pub(crate) struct MemberChanges {
    local: Arc<LocalNode>,
    raft: Raft,
    leadership: Arc<Leadership>,
    peers: Arc<Peers>,
    leader: Arc<LeaderClient>,
    /// One change after the other: a change that is repeated finds the first one done, not half done.
    turn: tokio::sync::Mutex<()>,
}

impl MemberChanges {
    /// The changes of this node.
    pub(crate) fn new(
        local: Arc<LocalNode>,
        raft: Raft,
        leadership: Arc<Leadership>,
        peers: Arc<Peers>,
        leader: Arc<LeaderClient>,
    ) -> Self {
        Self { local, raft, leadership, peers, leader, turn: tokio::sync::Mutex::new(()) }
    }

    /// Changes the membership through the leader, and waits until the change is visible here.
    pub(crate) async fn change(
        self: &Arc<Self>,
        change: MemberChange,
        deadline: Instant,
    ) -> Result<(), ProposeError> {
        let change = WireMemberChange::from(change);
        let here = || self.change_here(self.local.id(), change.clone(), deadline);
        let request = |time_left_ms| Request::ChangeMembers { change: change.clone(), time_left_ms };
        let done = |reply| match reply {
            Reply::MembersChanged => Ok(()),
            other => Err(other),
        };
        self.leader.ask(deadline, here, request, done).await.into_result()?;
        self.wait_until_visible(&change, deadline.min(Instant::now() + VISIBLE_MAX)).await;
        Ok(())
    }

    /// The caller reads its own change here. The change is committed: a node that does not learn of it in time (say,
    /// since it was removed itself) does not undo it.
    async fn wait_until_visible(&self, change: &WireMemberChange, until: Instant) {
        let is_visible = || {
            let members = self.local.members.load();
            match change {
                WireMemberChange::AddLearner { id, .. } => members.contact(*id).is_some(),
                WireMemberChange::Promote { id } => members.is_voter(*id),
                WireMemberChange::Remove { id } => members.contact(*id).is_none(),
                WireMemberChange::Replace { old, id, .. } => {
                    members.contact(*id).is_some() && members.contact(*old).is_none()
                }
            }
        };
        while !is_visible() && Instant::now() < until {
            sleep(LOOK_PAUSE).await;
        }
    }

    /// The leader's part. `asked_at`: the node that the caller asked. Goes on when the caller stops waiting, and can be
    /// asked for again.
    pub(crate) async fn change_here(
        self: &Arc<Self>,
        asked_at: NodeId,
        change: WireMemberChange,
        deadline: Instant,
    ) -> ProposalOutcome<()> {
        let this = Arc::clone(self);
        to_its_end(&self.local, async move { this.carry_out(asked_at, change, deadline).await }).await
    }

    async fn carry_out(
        &self,
        asked_at: NodeId,
        change: WireMemberChange,
        deadline: Instant,
    ) -> ProposalOutcome<()> {
        let Ok(_turn) = timeout_at(deadline, self.turn.lock()).await else {
            return ProposalOutcome::Refused("another change of members takes its time".into());
        };
        if !self.leadership.state().leading {
            return ProposalOutcome::NotLeader("this node does not lead".into());
        }
        let what = change.to_string();
        let outcome = match change {
            WireMemberChange::AddLearner { id, address } => self.add_learner(id, address, deadline).await,
            WireMemberChange::Promote { id } => self.promote(id, deadline).await,
            WireMemberChange::Remove { id } => self.remove(id, deadline).await,
            WireMemberChange::Replace { old, id, address } => self.replace(old, id, address, deadline).await,
        };
        match &outcome {
            ProposalOutcome::Done(()) => tracing::info!("members changed, asked at node {asked_at}: {what}"),
            ProposalOutcome::NotLeader(_) => {}
            ProposalOutcome::Refused(reason) => {
                tracing::info!("members not changed, asked at node {asked_at}: {what}: {reason}");
            }
            ProposalOutcome::Unknown(reason) => {
                tracing::info!("members perhaps changed, asked at node {asked_at}: {what}: {reason}");
            }
        }
        outcome
    }

    async fn add_learner(&self, id: NodeId, address: String, deadline: Instant) -> ProposalOutcome<()> {
        if self.local.members.load().committed.nodes.get(&id).is_some_and(|known| known.address == address) {
            return ProposalOutcome::Done(());
        }
        let contact = match self.check_new(id, address, deadline).await {
            Ok(contact) => contact,
            Err(reason) => return ProposalOutcome::Refused(reason),
        };
        outcome(timeout_at(deadline, self.raft.add_learner(id, contact, false)).await)
    }

    /// Connects to a node that is to join, and checks that it may.
    async fn check_new(&self, id: NodeId, address: String, deadline: Instant) -> Result<Contact, String> {
        if self.local.members.load().contact(id).is_some() || id == self.local.id() {
            return Err(format!("node {id} is a member already, with another address or not yet committed"));
        }
        let info = timeout_at(deadline, self.peers.probe(id, &address))
            .await
            .map_err(|_| format!("node {id} is not reached at {address} in time"))?
            .map_err(|e| format!("node {id} is not reached at {address}: {e}"))?;
        let ours = self.local.directory.cluster_id();
        if info.cluster_id.is_some() && info.cluster_id != ours {
            return Err(format!("node {id} at {address} belongs to another cluster"));
        }
        if info.cluster_id.is_none() && info.last.is_some() {
            return Err(format!("node {id} at {address} has a log, but belongs to no cluster"));
        }
        Ok(Contact { address, directory_id: info.directory_id })
    }

    async fn promote(&self, id: NodeId, deadline: Instant) -> ProposalOutcome<()> {
        if self.local.members.load().committed.voters.contains(&id) {
            return ProposalOutcome::Done(());
        }
        if let Err(reason) = self.check_promotion(id) {
            return ProposalOutcome::Refused(reason);
        }
        let change = ChangeMembers::AddVoterIds(BTreeSet::from([id]));
        outcome(timeout_at(deadline, self.raft.change_membership(change, true)).await)
    }

    fn check_promotion(&self, id: NodeId) -> Result<(), String> {
        let members = self.local.members.load();
        if members.contact(id).is_none() {
            return Err(format!("node {id} is not a member: add it first"));
        }
        if !self.has_caught_up(id) {
            return Err(format!("node {id} has not caught up yet: try again later"));
        }
        let mut voters = members.effective.voters.clone();
        voters.insert(id);
        self.check_majority(&voters)
    }

    async fn remove(&self, id: NodeId, deadline: Instant) -> ProposalOutcome<()> {
        if let Err(reason) = self.check_removal(id) {
            return ProposalOutcome::Refused(reason);
        }
        let ids = BTreeSet::from([id]);
        let change = match self.local.members.load().is_voter(id) {
            true => ChangeMembers::RemoveVoters(ids),
            false => ChangeMembers::RemoveNodes(ids),
        };
        // Not kept as a learner: it gets nothing any more.
        outcome(timeout_at(deadline, self.raft.change_membership(change, false)).await)
    }

    fn check_removal(&self, id: NodeId) -> Result<(), String> {
        if id == self.local.id() {
            return Err(format!("node {id} leads: transfer leadership first (`raft-namesrv transfer`)"));
        }
        let members = self.local.members.load();
        if members.contact(id).is_none() {
            return Err(format!("node {id} is not a member"));
        }
        if !members.is_voter(id) {
            return Ok(());
        }
        let mut voters = members.effective.voters.clone();
        voters.remove(&id);
        self.check_majority(&voters)
    }

    async fn replace(
        &self,
        old: NodeId,
        id: NodeId,
        address: String,
        deadline: Instant,
    ) -> ProposalOutcome<()> {
        let members = self.local.members.load();
        if members.contact(old).is_none() {
            let new = members.committed.nodes.get(&id).filter(|_| members.committed.voters.contains(&id));
            return match new {
                Some(new) if new.address == address => ProposalOutcome::Done(()),
                _ => ProposalOutcome::Refused(format!("node {old} is not a member")),
            };
        }
        if old == self.local.id() {
            let reason = format!("node {old} leads: transfer leadership first (`raft-namesrv transfer`)");
            return ProposalOutcome::Refused(reason);
        }
        match self.add_learner(id, address, deadline).await {
            ProposalOutcome::Done(()) => {}
            failed => return failed,
        }
        while !self.has_caught_up(id) {
            if Instant::now() >= deadline {
                return ProposalOutcome::Unknown(format!(
                    "node {id} is a learner now, but has not caught up in time: promote it later, then remove {old}"
                ));
            }
            sleep(LOOK_PAUSE).await;
        }
        match self.promote(id, deadline).await {
            ProposalOutcome::Done(()) => self.remove(old, deadline).await,
            failed => failed,
        }
    }

    /// On the leader: whether a member's log is nearly as long as this one's.
    fn has_caught_up(&self, id: NodeId) -> bool {
        let last = self.local.log.state().last.map_or(0, |last| last.index);
        let matched = matched(&self.raft).into_iter().find(|(member, _)| *member == id);
        matched.and_then(|(_, at)| at).is_some_and(|at| at.index + CAUGHT_UP_ENTRIES >= last)
    }

    /// Refuses voters of which this node reaches no majority now.
    fn check_majority(&self, voters: &BTreeSet<NodeId>) -> Result<(), String> {
        let is_reached = |id: &NodeId| *id == self.local.id() || self.peers.is_reachable(*id);
        let reached = voters.iter().filter(|id| is_reached(id)).count();
        if reached * 2 > voters.len() {
            return Ok(());
        }
        Err(format!(
            "of the voters {voters:?} only {reached} would be reached: the cluster would have no majority"
        ))
    }
}

fn outcome(result: Result<ChangeResult, tokio::time::error::Elapsed>) -> ProposalOutcome<()> {
    match result {
        Ok(Ok(_)) => ProposalOutcome::Done(()),
        Ok(Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_)))) => {
            ProposalOutcome::NotLeader("this node does not lead".into())
        }
        Ok(Err(RaftError::APIError(ClientWriteError::LogEntryDiscarded(_)))) => {
            ProposalOutcome::Unknown("leadership changed while it was under way".into())
        }
        Ok(Err(RaftError::APIError(e))) => ProposalOutcome::Refused(e.to_string()),
        Ok(Err(RaftError::Fatal(e))) => ProposalOutcome::Unknown(e.to_string()),
        Err(_) => ProposalOutcome::Unknown("not committed in time".into()),
    }
}
