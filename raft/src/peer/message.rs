//! Requests and replies between nodes, after the handshake. These are structs of this project, so that the peer protocol
//! does not depend on openraft's. New variants go at the end; fields are never reordered.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::io;
use storage::log::{Entry, Payload};
use storage::snapshots::SnapshotMeta;
use storage::{Command, LogId, Outcome, Position, Vote, format};

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Log entries, or a heartbeat.
    Append(Append),
    /// Asks for a vote.
    Vote(VoteRequest),
    /// Asks whether the node would grant a vote.
    PreVote(VoteRequest),
    /// Leadership transfer: the leader asks its successor to stand for election at once.
    TimeoutNow { from: Vote, to: u64, last: Option<LogId> },
    /// A snapshot begins.
    SnapshotBegin { vote: Vote, meta: SnapshotMeta },
    /// Chunks of the snapshot, the first with the number `first`.
    SnapshotChunks { first: u32, chunks: Vec<Bytes> },
    /// The snapshot ends, after so many chunks.
    SnapshotEnd { chunks: u32 },
    /// Asks the leader to propose a command.
    Propose { command: Box<Command>, time_left_ms: u64 },
    /// Asks the leader for a read index.
    ReadIndex { time_left_ms: u64 },
    /// Asks the leader to transfer its leadership.
    TransferLeadership { to: Option<u64>, time_left_ms: u64 },
    /// Asks the leader to change the membership.
    ChangeMembers { change: WireMemberChange, time_left_ms: u64 },
    /// Asks for what the node knows before the bootstrap.
    BootstrapInfo,
    /// Asks for the hash of the state at exactly this index.
    StateHash { index: u64 },
    /// The leader's state hash at an index differs from the receiver's.
    Diverged { index: u64 },
    /// A message of the application.
    Message(Bytes),
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// To [`Request::Append`].
    Append(Appended),
    /// To [`Request::Vote`] and [`Request::PreVote`].
    Vote { vote: Vote, granted: bool, last: Option<LogId> },
    /// To [`Request::TimeoutNow`]: whether the node stands for election.
    TimeoutNow(bool),
    /// To the parts of a snapshot: go on, or done. With the vote of the node.
    Snapshot { vote: Vote },
    /// To [`Request::Propose`].
    Proposed { position: Position, outcome: Outcome },
    /// Certainly not done, and will not be.
    Refused(String),
    /// May have been done.
    Unknown(String),
    /// Not done: the node does not lead.
    NotLeader,
    /// To [`Request::ReadIndex`]: read after this index.
    ReadIndex { index: u64 },
    /// To [`Request::TransferLeadership`]: the leader now.
    Transferred { leader: u64 },
    /// To [`Request::ChangeMembers`].
    MembersChanged,
    /// To [`Request::BootstrapInfo`].
    BootstrapInfo(BootstrapInfo),
    /// To [`Request::StateHash`]: `None` when the node was not at exactly that index.
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
    pub(crate) entries: Vec<WireEntry>,
    pub(crate) committed: Option<LogId>,
}

/// A log entry on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireEntry {
    id: LogId,
    payload: WirePayload,
}

/// What a log entry carries, on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum WirePayload {
    Blank,
    Commands(Bytes),
    Membership(Bytes),
}

impl From<Entry> for WireEntry {
    fn from(Entry { id, payload }: Entry) -> Self {
        let payload = match payload {
            Payload::Blank => WirePayload::Blank,
            Payload::Commands(bytes) => WirePayload::Commands(bytes),
            Payload::Membership(bytes) => WirePayload::Membership(bytes),
        };
        Self { id, payload }
    }
}

impl From<WireEntry> for Entry {
    fn from(WireEntry { id, payload }: WireEntry) -> Self {
        let payload = match payload {
            WirePayload::Blank => Payload::Blank,
            WirePayload::Commands(bytes) => Payload::Commands(bytes),
            WirePayload::Membership(bytes) => Payload::Membership(bytes),
        };
        Self { id, payload }
    }
}

/// How an append went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Appended {
    Success,
    Partial(Option<LogId>),
    Conflict,
    HigherVote(Vote),
}

/// Asks for a vote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VoteRequest {
    pub(crate) vote: Vote,
    pub(crate) last: Option<LogId>,
    /// The election follows a leadership transfer: the lease of the old leader does not hold it up.
    pub(crate) transfer: bool,
}

/// A change of the membership, on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WireMemberChange {
    AddLearner { id: u64, address: String },
    Promote { id: u64 },
    Remove { id: u64 },
    Replace { old: u64, id: u64, address: String },
}

/// What a node knows before the bootstrap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BootstrapInfo {
    /// Its cluster.
    pub(crate) cluster_id: Option<u128>,
    /// Whether it has a log, or a state.
    pub(crate) initialized: bool,
    /// Ids and addresses of its option `--members`, in id order.
    pub(crate) members: Vec<(u64, String)>,
    /// Hash of its first commands of a new cluster.
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

#[cfg(test)]
pub(crate) use tests::samples;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_an_append_stay_what_they_are() {
        let append = Append {
            vote: Vote { term: 3, node: 1, committed: true },
            previous: Some(LogId { term: 2, index: 4 }),
            entries: vec![WireEntry {
                id: LogId { term: 3, index: 5 },
                payload: WirePayload::Commands(Bytes::from_static(b"xy")),
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
        // An encoded membership: voter 1, which is node 1 at "a:1" with data directory 1 << 100.
        let directory_id = [254, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0];
        let members = [&[1, 0, 1, 1, 1, 1, 1, 3, 97, 58, 49], &directory_id[..]].concat();
        let members = Bytes::from(members);
        let entry = |index, payload| WireEntry { id: LogId { term: 3, index }, payload };
        let append = Append {
            vote,
            previous: Some(last),
            entries: vec![
                entry(301, WirePayload::Blank),
                entry(302, WirePayload::Membership(members.clone())),
                entry(303, WirePayload::Commands(Bytes::from_static(b"xy"))),
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
            Request::PreVote(VoteRequest { vote, last: Some(last), transfer: false }),
            Request::SnapshotBegin { vote, meta },
            Request::SnapshotChunks { first: 0, chunks: vec![Bytes::from_static(b"chunk"); 2] },
            Request::Propose { command: Box::new(command), time_left_ms: 2_500 },
            Request::ChangeMembers {
                change: WireMemberChange::Replace { old: 1, id: 2, address: "b:1".into() },
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
            Reply::BootstrapInfo(BootstrapInfo {
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
