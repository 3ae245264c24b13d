//! The members of the Raft group.

use raft::{Member, MemberChange, MemberStatus};
use serde::{Deserialize, Serialize};

/// A member of the Raft group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberView {
    /// Node id.
    pub id: u64,
    /// Peer address.
    pub address: String,
    /// Whether it is a voter.
    pub voter: bool,
    /// Whether a connection to it works.
    pub reachable: bool,
    /// On the leader: index of the last entry known to be in its log.
    pub matched_index: Option<u64>,
}

/// `POST /api/v1/members`: one change of the membership. The response comes once the change is done: the members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "change", deny_unknown_fields)]
pub enum MemberChangeRequest {
    /// Add a waiting node as a learner.
    Add {
        /// Its id, never used before.
        id: u64,
        /// `host:port` of its peer port.
        address: String,
    },
    /// Promote a learner that has caught up to a voter.
    Promote {
        /// Its id.
        id: u64,
    },
    /// Remove a member.
    Remove {
        /// Its id.
        id: u64,
    },
    /// Add a node and remove a dead one.
    Replace {
        /// The dead node.
        old: u64,
        /// Id of its successor, never used before.
        id: u64,
        /// `host:port` of the successor's peer port.
        address: String,
    },
}

impl From<MemberChangeRequest> for MemberChange {
    fn from(request: MemberChangeRequest) -> Self {
        match request {
            MemberChangeRequest::Add { id, address } => Self::AddLearner(Member { id, address }),
            MemberChangeRequest::Promote { id } => Self::Promote(id),
            MemberChangeRequest::Remove { id } => Self::Remove(id),
            MemberChangeRequest::Replace { old, id, address } => {
                Self::Replace { old, new: Member { id, address } }
            }
        }
    }
}

impl MemberView {
    /// The view of a member.
    #[must_use]
    pub fn new(member: &MemberStatus) -> Self {
        Self {
            id: member.member.id,
            address: member.member.address.clone(),
            voter: member.voter,
            reachable: member.reachable,
            matched_index: member.matched.map(|id| id.index),
        }
    }
}
