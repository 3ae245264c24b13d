//! What nodes say to each other after the handshake. Our own structs, so that neither the disk nor the wire knows
//! openraft's. New variants go at the end; fields are never reordered.

use crate::consensus::log_store;
use crate::consensus::types::{RaftEntry, Types, log_id, raft_log_id, raft_vote, vote};
use bytes::Bytes;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest, VoteResponse,
};
use serde::{Deserialize, Serialize};
use std::io;
use storage::log::{Entry, Payload};
use storage::snapshots::SnapshotMeta;
use storage::{Command, LogId, Outcome, Position, Vote, format};

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Log entries, or a heartbeat.
    Append(Append),
    /// Asks for a vote.
    Vote(AskVote),
    /// Asks whether a vote would be granted.
    PreVote(AskVote),
    /// The leader hands leadership over.
    TakeOver { from: Vote, to: u64, last: Option<LogId> },
    /// A snapshot begins.
    SnapshotBegin { vote: Vote, meta: SnapshotMeta },
    /// Chunks of the snapshot, the first with the number `first`.
    SnapshotChunks { first: u32, chunks: Vec<Bytes> },
    /// The snapshot is whole.
    SnapshotEnd { chunks: u32 },
    /// A command for the leader.
    Propose { command: Box<Command>, time_left_ms: u64 },
    /// A read barrier of the leader.
    Barrier { time_left_ms: u64 },
    /// The leader shall hand leadership over.
    Transfer { to: Option<u64>, time_left_ms: u64 },
    /// The leader shall change the membership.
    ChangeMembers { change: Change, time_left_ms: u64 },
    /// What the node knows of the cluster's birth.
    Birth,
    /// The hash of the state at exactly this index.
    StateHash { index: u64 },
    /// The leader's state hash at an index differs from this node's.
    Diverged { index: u64 },
    /// A message of the application.
    Message(Bytes),
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// To [`Request::Append`].
    Append(Appended),
    /// To [`Request::Vote`] and [`Request::PreVote`].
    Vote { vote: Vote, granted: bool, last: Option<LogId> },
    /// To [`Request::TakeOver`]: whether it tries.
    TakeOver(bool),
    /// To the parts of a snapshot: go on, or done. With the vote of the node.
    Snapshot { vote: Vote },
    /// To [`Request::Propose`].
    Proposed { position: Position, outcome: Outcome },
    /// Certainly not done, and will not be.
    Refused(String),
    /// May have been done.
    Unknown(String),
    /// Not done: not the leader.
    NotLeader,
    /// To [`Request::Barrier`]: read after this index.
    Barrier { index: u64 },
    /// To [`Request::Transfer`]: who leads now.
    Transferred { leader: u64 },
    /// To [`Request::ChangeMembers`].
    MembersChanged,
    /// To [`Request::Birth`].
    Birth(BirthFacts),
    /// To [`Request::StateHash`]: `None` when that index was not seen.
    StateHash(Option<u128>),
    /// To [`Request::Diverged`].
    Noted,
    /// To [`Request::Message`].
    Message(Bytes),
    /// The node cannot answer this now; nothing was done.
    Unavailable(String),
}

/// Log entries to append.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Append {
    pub(crate) vote: Vote,
    pub(crate) previous: Option<LogId>,
    pub(crate) entries: Vec<SentEntry>,
    pub(crate) committed: Option<LogId>,
}

/// A log entry on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SentEntry {
    id: LogId,
    payload: SentPayload,
}

/// What a log entry carries, on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum SentPayload {
    Blank,
    Commands(Bytes),
    Membership(Bytes),
}

/// How an append went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Appended {
    Success,
    Partial(Option<LogId>),
    Conflict,
    HigherVote(Vote),
}

/// A question for a vote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AskVote {
    vote: Vote,
    last: Option<LogId>,
    transfer: bool,
}

/// A change of the membership, on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Change {
    AddLearner { id: u64, address: String },
    Promote { id: u64 },
    Remove { id: u64 },
    Replace { old: u64, id: u64, address: String },
}

/// What a node knows of the cluster's birth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BirthFacts {
    /// Its cluster.
    pub(crate) cluster_id: Option<u128>,
    /// Whether it has a log or a vote.
    pub(crate) initialized: bool,
    /// The members it was told of, in id order.
    pub(crate) members: Vec<(u64, String)>,
    /// Hash of the commands that a new cluster begins with.
    pub(crate) fingerprint: u128,
}

/// Encodes a request.
pub(crate) fn encode_request(request: &Request) -> io::Result<Vec<u8>> {
    format::encode("peer request", request).map_err(io::Error::other)
}

/// Decodes a request.
pub(crate) fn decode_request(bytes: &[u8]) -> io::Result<Request> {
    format::decode("peer request", bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Encodes a reply.
pub(crate) fn encode_reply(reply: &Reply) -> io::Result<Vec<u8>> {
    format::encode("peer reply", reply).map_err(io::Error::other)
}

/// Decodes a reply.
pub(crate) fn decode_reply(bytes: &[u8]) -> io::Result<Reply> {
    format::decode("peer reply", bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

impl Append {
    /// From openraft's.
    pub(crate) fn from_raft(request: AppendEntriesRequest<Types>) -> io::Result<Self> {
        let entries = request.entries.into_iter().map(SentEntry::from_raft).collect::<io::Result<_>>()?;
        Ok(Self {
            vote: vote(&request.vote),
            previous: request.prev_log_id.as_ref().map(log_id),
            entries,
            committed: request.leader_commit.as_ref().map(log_id),
        })
    }

    /// openraft's.
    pub(crate) fn into_raft(self) -> io::Result<AppendEntriesRequest<Types>> {
        let entries = self.entries.into_iter().map(SentEntry::into_raft).collect::<io::Result<_>>()?;
        Ok(AppendEntriesRequest {
            vote: raft_vote(self.vote),
            prev_log_id: self.previous.map(raft_log_id),
            entries,
            leader_commit: self.committed.map(raft_log_id),
        })
    }
}

impl SentEntry {
    fn from_raft(entry: RaftEntry) -> io::Result<Self> {
        let Entry { id, payload } = log_store::from_raft(entry)?;
        let payload = match payload {
            Payload::Blank => SentPayload::Blank,
            Payload::Commands(bytes) => SentPayload::Commands(bytes),
            Payload::Membership(bytes) => SentPayload::Membership(bytes),
        };
        Ok(Self { id, payload })
    }

    fn into_raft(self) -> io::Result<RaftEntry> {
        let payload = match self.payload {
            SentPayload::Blank => Payload::Blank,
            SentPayload::Commands(bytes) => Payload::Commands(bytes),
            SentPayload::Membership(bytes) => Payload::Membership(bytes),
        };
        log_store::to_raft(Entry { id: self.id, payload })
    }
}

impl From<AppendEntriesResponse<Types>> for Appended {
    fn from(response: AppendEntriesResponse<Types>) -> Self {
        match response {
            AppendEntriesResponse::Success => Self::Success,
            AppendEntriesResponse::PartialSuccess(upto) => Self::Partial(upto.as_ref().map(log_id)),
            AppendEntriesResponse::Conflict => Self::Conflict,
            AppendEntriesResponse::HigherVote(higher) => Self::HigherVote(vote(&higher)),
        }
    }
}

impl From<Appended> for AppendEntriesResponse<Types> {
    fn from(appended: Appended) -> Self {
        match appended {
            Appended::Success => Self::Success,
            Appended::Partial(upto) => Self::PartialSuccess(upto.map(raft_log_id)),
            Appended::Conflict => Self::Conflict,
            Appended::HigherVote(higher) => Self::HigherVote(raft_vote(higher)),
        }
    }
}

impl From<VoteRequest<Types>> for AskVote {
    fn from(request: VoteRequest<Types>) -> Self {
        Self {
            vote: vote(&request.vote),
            last: request.last_log_id.as_ref().map(log_id),
            transfer: request.leadership_transfer,
        }
    }
}

impl From<AskVote> for VoteRequest<Types> {
    fn from(ask: AskVote) -> Self {
        Self {
            leadership_transfer: ask.transfer,
            ..Self::new(raft_vote(ask.vote), ask.last.map(raft_log_id))
        }
    }
}

impl From<VoteResponse<Types>> for Reply {
    fn from(response: VoteResponse<Types>) -> Self {
        Self::Vote {
            vote: vote(&response.vote),
            granted: response.vote_granted,
            last: response.last_log_id.as_ref().map(log_id),
        }
    }
}

/// The request that openraft gives when it hands leadership over.
pub(crate) fn take_over(request: &TransferLeaderRequest<Types>) -> Request {
    Request::TakeOver {
        from: vote(request.from_leader()),
        to: *request.to_node_id(),
        last: request.last_log_id().map(log_id),
    }
}

#[cfg(test)]
pub(crate) use tests::samples;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consensus::membership_codec as membership;
    use crate::consensus::types::{Contact, Membership};
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn bytes_of_an_append_stay_what_they_are() {
        let append = Append {
            vote: Vote { term: 3, node: 1, committed: true },
            previous: Some(LogId { term: 2, index: 4 }),
            entries: vec![SentEntry {
                id: LogId { term: 3, index: 5 },
                payload: SentPayload::Commands(Bytes::from_static(b"xy")),
            }],
            committed: None,
        };
        let bytes = encode_request(&Request::Append(append.clone())).unwrap();
        assert_eq!(bytes, [1, 0, 3, 1, 1, 1, 2, 4, 1, 3, 5, 1, 2, 120, 121, 0]);
        assert_eq!(decode_request(&bytes).unwrap(), Request::Append(append));
    }

    /// Encoded messages, among them those that have others inside.
    pub(crate) fn samples() -> Vec<Vec<u8>> {
        let vote = Vote { term: 3, node: 1, committed: true };
        let last = LogId { term: 2, index: 300 };
        let members = BTreeMap::from([(1, Contact { address: "a:1".into(), directory_id: 1 << 100 })]);
        let members = Membership::new(vec![BTreeSet::from([1])], members).unwrap();
        let members = membership::encode(&members).unwrap();
        let entry = |index, payload| SentEntry { id: LogId { term: 3, index }, payload };
        let append = Append {
            vote,
            previous: Some(last),
            entries: vec![
                entry(301, SentPayload::Blank),
                entry(302, SentPayload::Membership(members.clone())),
                entry(303, SentPayload::Commands(Bytes::from_static(b"xy"))),
            ],
            committed: None,
        };
        let meta = SnapshotMeta { last, membership: members, state_hash: 9, unix_ms: 1 };
        let delete = storage::command::DeleteTopic { topic: "t".into(), cluster: None };
        let command = Command {
            origin: storage::command::Origin::default(),
            change: storage::Change::DeleteTopic(delete),
        };
        let requests = [
            Request::Append(append),
            Request::PreVote(AskVote { vote, last: Some(last), transfer: false }),
            Request::SnapshotBegin { vote, meta },
            Request::SnapshotChunks { first: 0, chunks: vec![Bytes::from_static(b"chunk"); 2] },
            Request::Propose { command: Box::new(command), time_left_ms: 2_500 },
            Request::ChangeMembers {
                change: Change::Replace { old: 1, id: 2, address: "b:1".into() },
                time_left_ms: 1,
            },
        ];
        let replies = [
            Reply::Append(Appended::Partial(Some(last))),
            Reply::Proposed {
                position: Position { index: 300, number: 2 },
                outcome: Outcome::Done { changed: true },
            },
            Reply::Refused("why".into()),
            Reply::Birth(BirthFacts {
                cluster_id: Some(1),
                initialized: true,
                members: vec![(1, "a:1".into())],
                fingerprint: 1 << 70,
            }),
        ];
        let requests = requests.iter().map(encode_request);
        requests.chain(replies.iter().map(encode_reply)).map(Result::unwrap).collect()
    }
}
