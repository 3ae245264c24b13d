//! Handlers of Raft's own requests: votes, appends and heartbeats, leadership transfer.

use super::{unavailable, wrong_channel};
use crate::consensus::conversions;
use crate::consensus::raft::Raft;
use crate::consensus::types::{raft_log_id, raft_vote};
use crate::leader::leadership::Leadership;
use crate::local::LocalNode;
use crate::peer::authorize::OWN_DIRECTORY;
use crate::peer::message::{Append, Reply, Request, VoteRequest};
use crate::snapshots::installer::SnapshotInstaller;
use openraft::raft::{AppendEntriesResponse, TransferLeaderRequest};
use std::sync::Arc;
use storage::disk::SpaceLevel;

/// Handles Raft's own requests.
pub(crate) struct RaftRpc {
    pub(crate) local: Arc<LocalNode>,
    pub(crate) raft: Raft,
    pub(crate) leadership: Arc<Leadership>,
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
        // Heartbeats and votes go on; entries that could not be written must not reach openraft.
        if !append.entries.is_empty() && self.local.disk.space() == SpaceLevel::Min {
            return Reply::Unavailable("the disk is full".into());
        }
        let term = append.vote.term;
        let request = match conversions::raft_append(append) {
            Ok(request) => request,
            Err(e) => return unavailable(e),
        };
        let _appending = self.installer.appending().await;
        match self.raft.append_entries(request).await {
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
