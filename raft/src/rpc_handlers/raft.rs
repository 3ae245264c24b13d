//! Handlers of Raft's own requests: votes, appends and heartbeats, leadership transfer.

use super::{unavailable, wrong_channel};
use crate::consensus::conversions;
use crate::consensus::raft::Raft;
use crate::consensus::types::{Types, raft_log_id, raft_vote};
use crate::leader::lag::LagWatch;
use crate::leader::leadership::Leadership;
use crate::local::LocalNode;
use crate::peer::authorize::OWN_DIRECTORY;
use crate::peer::message::{Append, Reply, Request, VoteRequest};
use crate::snapshots::installer::SnapshotInstaller;
use openraft::errors::RaftError;
use openraft::raft::{AppendEntriesResponse, TransferLeaderRequest};
use std::sync::Arc;
use storage::disk::SpaceLevel;
use storage::{LogId, Vote};

/// Handles Raft's own requests.
pub(crate) struct RaftRpc {
    pub(crate) local: Arc<LocalNode>,
    pub(crate) raft: Raft,
    pub(crate) leadership: Arc<Leadership>,
    pub(crate) lag: Arc<LagWatch>,
    pub(crate) installer: Arc<SnapshotInstaller>,
}

impl RaftRpc {
    /// Handles one request.
    pub(crate) async fn handle(&self, request: Request) -> Reply {
        match request {
            Request::Append(append) => self.append(append).await,
            Request::Vote(request) => self.vote(request, false).await,
            Request::PreVote(request) => self.vote(request, true).await,
            Request::TimeoutNow { from, to, last } => {
                let request = TransferLeaderRequest::new(raft_vote(from), to, last.map(raft_log_id));
                match self.raft.handle_transfer_leader(request).await {
                    Ok(result) => Reply::TimeoutNow(result.is_ok()),
                    Err(e) => unavailable(e),
                }
            }
            _ => wrong_channel(),
        }
    }

    async fn vote(&self, request: VoteRequest, is_pre_vote: bool) -> Reply {
        let request = request.into();
        let result = match is_pre_vote {
            true => self.raft.pre_vote(request).await,
            false => self.raft.vote(request).await,
        };
        match result {
            Ok(response) => response.into(),
            Err(e) => unavailable(e),
        }
    }

    async fn append(&self, append: Append) -> Reply {
        if let Some(committed) = append.committed {
            self.lag.received(committed.index);
        }
        if append.entries.is_empty() {
            return self.heartbeat(append).await;
        }
        // Heartbeats and votes go on; entries that could not be written must not reach openraft.
        if self.local.disk.space() == SpaceLevel::Min {
            return Reply::Unavailable("the disk is full".into());
        }
        let term = append.vote.term;
        let request = match conversions::raft_append(append) {
            Ok(request) => request,
            Err(e) => return unavailable(e),
        };
        let _appending = self.installer.appending().await;
        self.appended(term, self.raft.append_entries(request).await)
    }

    /// Replies once openraft has accepted the heartbeat. openraft itself replies only when all entries that came before
    /// are on disk: with a slow disk the leader would take this node for lost, and be replaced.
    async fn heartbeat(&self, mut append: Append) -> Reply {
        let leader = append.vote;
        let appending = self.installer.try_appending();
        if appending.is_none() {
            // While a snapshot is installed nothing may be applied, but the leader is heard.
            (append.previous, append.committed) = (None, None);
        }
        let previous = append.previous;
        let request = match conversions::raft_append(append) {
            Ok(request) => request,
            Err(e) => return unavailable(e),
        };
        let replied = self.raft.append_entries(request);
        tokio::pin!(replied);
        tokio::select! {
            biased;
            reply = &mut replied => return self.appended(leader.term, reply),
            true = self.has_accepted(leader, previous) => {}
        }
        self.record_contact(leader.term);
        Reply::Append(AppendEntriesResponse::Success.into())
    }

    /// Whether openraft, which has taken a heartbeat just before, follows its leader with the log that the leader knows.
    async fn has_accepted(&self, leader: Vote, previous: Option<LogId>) -> bool {
        let follows = self.raft.with_raft_state(move |state| *state.vote_ref() == raft_vote(leader)).await;
        // openraft waits for its vote to be on disk before it takes up anything else.
        let log = self.local.log.state();
        matches!(follows, Ok(true)) && log.vote == Some(leader) && previous <= log.last
    }

    fn appended(&self, term: u64, result: Result<AppendEntriesResponse<Types>, RaftError<Types>>) -> Reply {
        match result {
            Ok(response) => {
                if !matches!(response, AppendEntriesResponse::HigherVote(_)) {
                    self.record_contact(term);
                }
                Reply::Append(response.into())
            }
            Err(e) => unavailable(e),
        }
    }

    /// Notes that openraft accepted a message of the leader of a term.
    fn record_contact(&self, term: u64) {
        self.leadership.record_contact(term);
        self.local.members.set_removed(false);
        self.local.alerts.clear(OWN_DIRECTORY);
    }
}
