//! Members, and changes of the membership.

/// Id of a node: chosen by the operator, kept in its data directory, never used again for another directory.
pub type NodeId = u64;

/// A member's id and the address of its peer port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// Its id.
    pub id: NodeId,
    /// `host:port` of its peer port. The name is resolved at each connect.
    pub address: String,
}

/// A change of the membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberChange {
    /// Adds a node without a cluster as a learner: it follows and serves look-ups, but does not vote.
    AddLearner(Member),
    /// Makes a learner that has caught up a voter.
    Promote(NodeId),
    /// Removes a member (not the leader: transfer leadership first). Its id is never used again.
    Remove(NodeId),
    /// Adds `new`, waits until it has caught up, makes it a voter and removes `old`.
    Replace {
        /// The dead node.
        old: NodeId,
        /// Its successor, with an id of its own.
        new: Member,
    },
}
