//! Log entries and Raft's messages: this project's structs ⇄ openraft's.

use super::membership_codec;
use super::types::{Batch, RaftEntry, Types, log_id, raft_log_id, raft_vote, vote};
use crate::peer::message::{Append, Appended, Reply, Request, VoteRequest};
use openraft::EntryPayload;
use openraft::raft::{
    self, AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteResponse,
};
use std::io;
use storage::log::{Entry, Payload};

/// This project's entry.
pub(crate) fn entry(entry: RaftEntry) -> io::Result<Entry> {
    let payload = match entry.payload {
        EntryPayload::Blank => Payload::Blank,
        EntryPayload::Normal(Batch(bytes)) => Payload::Commands(bytes),
        EntryPayload::Membership(membership) => Payload::Membership(membership_codec::encode(&membership)?),
    };
    Ok(Entry { id: log_id(&entry.log_id), payload })
}

/// openraft's entry.
pub(crate) fn raft_entry(entry: Entry) -> io::Result<RaftEntry> {
    let payload = match entry.payload {
        Payload::Blank => EntryPayload::Blank,
        Payload::Commands(bytes) => EntryPayload::Normal(Batch(bytes)),
        Payload::Membership(bytes) => EntryPayload::Membership(membership_codec::decode(&bytes)?),
    };
    Ok(RaftEntry { log_id: raft_log_id(entry.id), payload })
}

/// The append that is sent to a peer.
pub(crate) fn append(request: AppendEntriesRequest<Types>) -> io::Result<Append> {
    let entries = request.entries.into_iter().map(|raft| entry(raft).map(Into::into));
    Ok(Append {
        vote: vote(&request.vote),
        previous: request.prev_log_id.as_ref().map(log_id),
        entries: entries.collect::<io::Result<_>>()?,
        committed: request.leader_commit.as_ref().map(log_id),
    })
}

/// openraft's append.
pub(crate) fn raft_append(append: Append) -> io::Result<AppendEntriesRequest<Types>> {
    let entries = append.entries.into_iter().map(|entry| raft_entry(entry.into()));
    Ok(AppendEntriesRequest {
        vote: raft_vote(append.vote),
        prev_log_id: append.previous.map(raft_log_id),
        entries: entries.collect::<io::Result<_>>()?,
        leader_commit: append.committed.map(raft_log_id),
    })
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

impl From<raft::VoteRequest<Types>> for VoteRequest {
    fn from(request: raft::VoteRequest<Types>) -> Self {
        Self {
            vote: vote(&request.vote),
            last: request.last_log_id.as_ref().map(log_id),
            transfer: request.leadership_transfer,
        }
    }
}

impl From<VoteRequest> for raft::VoteRequest<Types> {
    fn from(request: VoteRequest) -> Self {
        Self {
            leadership_transfer: request.transfer,
            ..Self::new(raft_vote(request.vote), request.last.map(raft_log_id))
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

/// The request that a leader sends to its successor.
pub(crate) fn timeout_now(request: &TransferLeaderRequest<Types>) -> Request {
    Request::TimeoutNow {
        from: vote(request.from_leader()),
        to: *request.to_node_id(),
        last: request.last_log_id().map(log_id),
    }
}
