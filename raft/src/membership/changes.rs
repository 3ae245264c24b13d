//! Changes of the membership: learners join, voters are made, members go.

use crate::api::{MemberChange, NodeId, ProposeError};
use crate::consensus::types::{Contact, Types};
use crate::leader::core::Core;
use crate::peer::channel as link;
use crate::peer::connection::{CallError, Limit};
use crate::peer::handshake::Lane;
use crate::peer::message::{Change, Reply, Request};
use crate::proposals::proposer::time_left_ms;
use openraft::ChangeMembers;
use openraft::errors::{ClientWriteError, RaftError};
use openraft::raft::ClientWriteResponse;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// A learner this close to the leader has caught up.
const CAUGHT_UP_ENTRIES: u64 = 100;
/// Between two looks at how far it is.
const CATCH_UP_PAUSE: Duration = Duration::from_millis(50);

/// How long a change that is done may take until this node sees it.
const SEE_MAX: Duration = Duration::from_secs(1);

/// What a write of the membership gives.
type Written = Result<ClientWriteResponse<Types>, RaftError<Types, ClientWriteError<Types>>>;

impl From<MemberChange> for Change {
    fn from(change: MemberChange) -> Self {
        match change {
            MemberChange::AddLearner(m) => Self::AddLearner { id: m.id, address: m.address },
            MemberChange::Promote(id) => Self::Promote { id },
            MemberChange::Remove(id) => Self::Remove { id },
            MemberChange::Replace { old, new } => Self::Replace { old, id: new.id, address: new.address },
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddLearner { id, address } => write!(f, "node {id} at {address} joins as a learner"),
            Self::Promote { id } => write!(f, "node {id} becomes a voter"),
            Self::Remove { id } => write!(f, "node {id} is removed"),
            Self::Replace { old, id, address } => {
                write!(f, "node {id} at {address} takes the place of node {old}")
            }
        }
    }
}

impl Core {
    /// Changes the membership, through the leader wherever that is.
    pub(crate) async fn change_members(&self, change: Change, deadline: Instant) -> Result<(), ProposeError> {
        loop {
            let reply = match self.leader_to_ask() {
                None => Reply::NotLeader,
                Some(leader) if leader == self.id() => {
                    self.change_members_for(self.id(), change.clone(), deadline).await
                }
                Some(leader) => {
                    let time_left_ms = time_left_ms(deadline);
                    let request = Request::ChangeMembers { change: change.clone(), time_left_ms };
                    match self.peers.peer(leader).call(Lane::Call, &request, Limit::Deadline(deadline)).await
                    {
                        Ok(reply) => reply,
                        Err(CallError::NotSent(_)) => Reply::NotLeader,
                        Err(e) => return Err(ProposeError::Unknown(e.to_string())),
                    }
                }
            };
            match reply {
                Reply::MembersChanged => {
                    self.see_change(&change, deadline.min(Instant::now() + SEE_MAX)).await;
                    return Ok(());
                }
                Reply::Refused(reason) => return Err(ProposeError::Refused(reason)),
                Reply::Unknown(reason) => return Err(ProposeError::Unknown(reason)),
                _ if Instant::now() >= deadline => {
                    return Err(ProposeError::Refused("no leader is known".into()));
                }
                _ => self.leader_pause(deadline).await,
            }
        }
    }

    /// Whoever changed the members through this node reads the change here. It is committed: a node that does not hear
    /// of it in time (say, since it was removed itself) does not make it undone.
    async fn see_change(&self, change: &Change, until: Instant) {
        let seen = || {
            let members = self.context.members.load();
            match change {
                Change::AddLearner { id, .. } => members.contact(*id).is_some(),
                Change::Promote { id } => members.effective.voter_ids().any(|voter| voter == *id),
                Change::Remove { id } => members.contact(*id).is_none(),
                Change::Replace { old, id, .. } => {
                    members.contact(*id).is_some() && members.contact(*old).is_none()
                }
            }
        };
        while !seen() && Instant::now() < until {
            sleep(CATCH_UP_PAUSE).await;
        }
    }

    /// The leader's part. `asker`: the node that was asked for it.
    pub(crate) async fn change_members_for(&self, asker: NodeId, change: Change, deadline: Instant) -> Reply {
        if !self.leadership().leading {
            return Reply::NotLeader;
        }
        let what = change.to_string();
        let result = match change {
            Change::AddLearner { id, address } => self.add_learner(id, address, deadline).await,
            Change::Promote { id } => self.promote(id, deadline).await,
            Change::Remove { id } => self.remove(id, deadline).await,
            Change::Replace { old, id, address } => self.replace(old, id, address, deadline).await,
        };
        match result {
            Ok(()) => {
                tracing::info!("members changed, as node {asker} was asked: {what}");
                Reply::MembersChanged
            }
            Err(Reply::NotLeader) => Reply::NotLeader,
            Err(reply) => {
                tracing::info!("no change of the members, as node {asker} was asked: {what}: {reply:?}");
                reply
            }
        }
    }

    async fn add_learner(&self, id: NodeId, address: String, deadline: Instant) -> Result<(), Reply> {
        if self.context.members.load().contact(id).is_some() || id == self.id() {
            return Err(refused(format!("node {id} is a member already")));
        }
        let connect = link::connect_to(&self.context, id, Lane::Call, None, &address);
        let connection = timeout_at(deadline, connect)
            .await
            .map_err(|_| refused(format!("node {id} is not reached at {address} in time")))?
            .map_err(|e| refused(format!("node {id} is not reached at {address}: {e}")))?;
        let facts = connection.facts.clone();
        drop(connection);
        let ours = self.context.directory.cluster_id();
        if facts.cluster_id.is_some() && facts.cluster_id != ours {
            return Err(refused(format!("node {id} at {address} belongs to another cluster")));
        }
        if facts.cluster_id.is_none() && facts.last.is_some() {
            return Err(refused(format!("node {id} at {address} has a log, but belongs to no cluster")));
        }
        let contact = Contact { address, directory_id: facts.directory_id };
        written(timeout_at(deadline, self.raft.add_learner(id, contact, false)).await)
    }

    async fn promote(&self, id: NodeId, deadline: Instant) -> Result<(), Reply> {
        let members = std::sync::Arc::clone(&self.context.members.load());
        if members.contact(id).is_none() {
            return Err(refused(format!("node {id} is not a member: add it first")));
        }
        if members.effective.voter_ids().any(|voter| voter == id) {
            return Err(refused(format!("node {id} votes already")));
        }
        if !self.has_caught_up(id) {
            return Err(refused(format!("node {id} has not caught up yet: try again later")));
        }
        self.keeps_quorum(|voters| {
            voters.insert(id);
        })?;
        let change = ChangeMembers::AddVoterIds(BTreeSet::from([id]));
        written(timeout_at(deadline, self.raft.change_membership(change, true)).await)
    }

    async fn remove(&self, id: NodeId, deadline: Instant) -> Result<(), Reply> {
        if id == self.id() {
            return Err(refused(format!("node {id} leads: hand leadership over first (`transfer`)")));
        }
        let members = std::sync::Arc::clone(&self.context.members.load());
        if members.contact(id).is_none() {
            return Err(refused(format!("node {id} is not a member")));
        }
        let ids = BTreeSet::from([id]);
        let change = if members.effective.voter_ids().any(|voter| voter == id) {
            self.keeps_quorum(|voters| {
                voters.remove(&id);
            })?;
            ChangeMembers::RemoveVoters(ids)
        } else {
            ChangeMembers::RemoveNodes(ids)
        };
        // Not kept as a learner: it gets nothing any more.
        written(timeout_at(deadline, self.raft.change_membership(change, false)).await)
    }

    async fn replace(
        &self,
        old: NodeId,
        id: NodeId,
        address: String,
        deadline: Instant,
    ) -> Result<(), Reply> {
        if self.context.members.load().contact(old).is_none() {
            return Err(refused(format!("node {old} is not a member")));
        }
        if old == self.id() {
            return Err(refused(format!("node {old} leads: hand leadership over first (`transfer`)")));
        }
        self.add_learner(id, address, deadline).await?;
        while !self.has_caught_up(id) {
            if Instant::now() >= deadline {
                return Err(Reply::Unknown(format!(
                    "node {id} is a learner now, but has not caught up in time: promote it later, then remove {old}"
                )));
            }
            sleep(CATCH_UP_PAUSE).await;
        }
        self.promote(id, deadline).await?;
        self.remove(old, deadline).await
    }

    /// On the leader: whether a member's log is nearly as long as this one's.
    fn has_caught_up(&self, id: NodeId) -> bool {
        let last = self.context.log.state().last.map_or(0, |last| last.index);
        let matched = self.matched().into_iter().find(|(member, _)| *member == id);
        matched.and_then(|(_, at)| at).is_some_and(|at| at.index + CAUGHT_UP_ENTRIES >= last)
    }

    /// Refuses a change after which the nodes that are reached now would be no majority.
    fn keeps_quorum(&self, change: impl FnOnce(&mut BTreeSet<NodeId>)) -> Result<(), Reply> {
        let mut voters: BTreeSet<NodeId> = self.context.members.load().effective.voter_ids().collect();
        change(&mut voters);
        let reached = voters.iter().filter(|id| **id == self.id() || self.peers.is_reachable(**id)).count();
        if reached * 2 > voters.len() {
            return Ok(());
        }
        Err(refused(format!(
            "of the voters {voters:?} only {reached} would be reached: the cluster would have no majority"
        )))
    }
}

fn refused(reason: String) -> Reply {
    Reply::Refused(reason)
}

fn written(result: Result<Written, tokio::time::error::Elapsed>) -> Result<(), Reply> {
    match result {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_)))) => Err(Reply::NotLeader),
        Ok(Err(RaftError::APIError(ClientWriteError::LogEntryDiscarded(_)))) => {
            Err(Reply::Unknown("leadership changed while it was under way".into()))
        }
        Ok(Err(RaftError::APIError(e))) => Err(refused(e.to_string())),
        Ok(Err(RaftError::Fatal(e))) => Err(Reply::Unknown(e.to_string())),
        Err(_) => Err(Reply::Unknown("not committed in time".into())),
    }
}
