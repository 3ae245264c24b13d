//! How openraft is set up for us, and its types ⇄ ours. Beyond the adapters nobody sees openraft's.

use bytes::Bytes;
use std::fmt;
use storage::{LogId, Outcome, Vote};

/// The types that our Raft is made of. Log ids are (term, index): one leader per term, as in the Raft paper.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Types;

impl openraft::RaftTypeConfig for Types {
    type D = Batch;
    type R = Answers;
    type NodeId = u64;
    type Node = Contact;
    type Term = u64;
    type LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>;
    type Vote = openraft::Vote<Self::LeaderId>;
    type Payload = openraft::EntryPayload<Batch, u64, Contact>;
    type Entry = openraft::Entry<openraft::vote::leader_id_std::CommittedLeaderId<u64>, Self::Payload>;
    type AsyncRuntime = crate::consensus::runtime::RaftRuntime;
    type Responder<T>
        = openraft::impls::OneshotResponder<Self, T>
    where
        T: openraft::OptionalSend + 'static;
    type Batch<T>
        = openraft::impls::InlineBatch<T>
    where
        T: openraft::OptionalSend + 'static;
    type ErrorSource = openraft::impls::BoxedErrorSource;
}

/// Our Raft.
pub(crate) type Raft = openraft::Raft<Types, crate::consensus::state_machine::Machine>;
/// openraft's log id.
pub(crate) type RaftLogId = openraft::type_config::alias::LogIdOf<Types>;
/// openraft's vote.
pub(crate) type RaftVote = openraft::type_config::alias::VoteOf<Types>;
/// openraft's log entry.
pub(crate) type RaftEntry = openraft::type_config::alias::EntryOf<Types>;
/// A membership, without where it stands in the log.
pub(crate) type Membership = openraft::Membership<u64, Contact>;
/// A membership with the id of its entry.
pub(crate) type StoredMembership = openraft::type_config::alias::StoredMembershipOf<Types>;
/// openraft's description of a snapshot.
pub(crate) type RaftSnapshotMeta = openraft::type_config::alias::SnapshotMetaOf<Types>;

/// What a log entry carries: an encoded batch of commands, the bytes that go to disk and to peers.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Batch(pub(crate) Bytes);

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} bytes)", self.0.len())
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// What the commands of an entry came to, in order. Empty for entries without commands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Answers(pub(crate) Vec<Outcome>);

/// What the membership holds of a node: where it is reached, and which data directory counts as that node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Contact {
    /// `host:port` of its peer port.
    pub(crate) address: String,
    /// Random id of its data directory. A node with the same id and another directory is a stranger.
    pub(crate) directory_id: u128,
}

/// Our log id.
pub(crate) fn log_id(id: &RaftLogId) -> LogId {
    LogId { term: id.committed_leader_id().term, index: id.index() }
}

/// openraft's log id.
pub(crate) fn raft_log_id(id: LogId) -> RaftLogId {
    RaftLogId::new_term_index(id.term, id.index)
}

/// Our vote.
pub(crate) fn vote(vote: &RaftVote) -> Vote {
    Vote { term: vote.leader_id.term, node: vote.leader_id.voted_for, committed: vote.committed }
}

/// openraft's vote.
pub(crate) fn raft_vote(vote: Vote) -> RaftVote {
    if vote.committed {
        RaftVote::new_committed(vote.term, vote.node)
    } else {
        RaftVote::new(vote.term, vote.node)
    }
}
