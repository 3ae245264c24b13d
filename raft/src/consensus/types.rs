//! The types that openraft works with here, and log ids and votes ⇄ this project's.

use crate::local::{Contact, MemberSet};
use bytes::Bytes;
use std::fmt;
use storage::{LogId, Outcome, Vote};

/// The types of this project's Raft. Log ids are (term, index): one leader per term, as in the Raft paper.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Types;

impl openraft::RaftTypeConfig for Types {
    type D = Batch;
    type R = EntryOutcomes;
    type NodeId = u64;
    type Node = Contact;
    type Term = u64;
    type LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>;
    type Vote = openraft::Vote<Self::LeaderId>;
    type Payload = openraft::EntryPayload<Batch, u64, Contact>;
    type Entry = openraft::Entry<openraft::vote::leader_id_std::CommittedLeaderId<u64>, Self::Payload>;
    type AsyncRuntime = super::runtime::RaftRuntime;
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

/// openraft's log id.
pub(crate) type RaftLogId = openraft::type_config::alias::LogIdOf<Types>;
/// openraft's vote.
pub(crate) type RaftVote = openraft::type_config::alias::VoteOf<Types>;
/// openraft's log entry.
pub(crate) type RaftEntry = openraft::type_config::alias::EntryOf<Types>;
/// A membership, without the id of its entry.
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

/// The outcomes of the commands of an entry, in order. Empty for entries without commands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EntryOutcomes(pub(crate) Vec<Outcome>);

/// This project's log id.
pub(crate) fn log_id(id: &RaftLogId) -> LogId {
    LogId { term: id.committed_leader_id().term, index: id.index() }
}

/// openraft's log id.
pub(crate) fn raft_log_id(id: LogId) -> RaftLogId {
    RaftLogId::new_term_index(id.term, id.index)
}

/// This project's vote.
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

/// This project's form of a membership.
pub(crate) fn member_set(stored: &StoredMembership) -> MemberSet {
    MemberSet {
        at: stored.log_id().as_ref().map(log_id),
        voters: stored.voter_ids().collect(),
        nodes: stored.nodes().map(|(id, contact)| (*id, contact.clone())).collect(),
    }
}
