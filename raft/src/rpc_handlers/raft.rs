//! What this node answers to other nodes.

use crate::consensus::runtime::blocking;
use crate::consensus::snapshot::{self, Receiving, SnapshotData, Staged};
use crate::consensus::types::{RaftVote, raft_log_id, raft_vote, vote};
use crate::leader::core::Core;
use crate::peer::handshake::{Facts, Lane};
use crate::peer::message::{Append, AskVote, BirthFacts, Reply, Request};
use crate::peer::server::{Answer, Answers, Session};
use openraft::raft::TransferLeaderRequest;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use storage::Vote;
use storage::disk::SpaceLevel;
use storage::snapshots::SnapshotMeta;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

/// Between two looks at whether the log has come to rest.
const REST_PAUSE: Duration = Duration::from_millis(5);

/// A snapshot that comes in parts.
struct Incoming {
    leader: Vote,
    receiving: Receiving,
}

/// One connection of a peer.
struct PeerSession {
    core: Arc<Core>,
    from: Facts,
    lane: Lane,
    incoming: Mutex<Option<Incoming>>,
}

impl Answers for Core {
    fn session(self: Arc<Self>, from: Facts, lane: Lane) -> Box<dyn Session> {
        Box::new(PeerSession { core: self, from, lane, incoming: Mutex::new(None) })
    }
}

impl Session for PeerSession {
    fn answer(&self, request: Request) -> Answer<'_> {
        Box::pin(async move {
            match self.lane {
                Lane::Control | Lane::Append => self.core.answer_raft(request).await,
                Lane::Snapshot => self.answer_snapshot(request).await,
                Lane::Call => self.answer_call(request).await,
                Lane::Message(_) => match request {
                    Request::Message(message) => {
                        Reply::Message(self.core.messages.handle(self.from.node_id, message).await)
                    }
                    _ => wrong_lane(),
                },
            }
        })
    }
}

fn wrong_lane() -> Reply {
    Reply::Unavailable("asked on the wrong lane".into())
}

fn unavailable(e: impl ToString) -> Reply {
    Reply::Unavailable(e.to_string())
}

impl Core {
    async fn answer_raft(&self, request: Request) -> Reply {
        match request {
            Request::Append(append) => self.answer_append(append).await,
            Request::Vote(ask) => self.answer_vote(ask, false).await,
            Request::PreVote(ask) => self.answer_vote(ask, true).await,
            Request::TakeOver { from, to, last } => {
                let request = TransferLeaderRequest::new(raft_vote(from), to, last.map(raft_log_id));
                match self.raft.handle_transfer_leader(request).await {
                    Ok(result) => Reply::TakeOver(result.is_ok()),
                    Err(e) => unavailable(e),
                }
            }
            _ => wrong_lane(),
        }
    }

    async fn answer_vote(&self, ask: AskVote, only_asked: bool) -> Reply {
        let result =
            if only_asked { self.raft.pre_vote(ask.into()).await } else { self.raft.vote(ask.into()).await };
        match result {
            Ok(response) => response.into(),
            Err(e) => unavailable(e),
        }
    }

    async fn answer_append(&self, append: Append) -> Reply {
        // Heartbeats and votes go on; entries that could not be written must not reach openraft.
        if !append.entries.is_empty() && self.context.directory.space() == SpaceLevel::Min {
            return Reply::Unavailable("the disk is full".into());
        }
        let (term, committed) = (append.vote.term, append.committed);
        let request = match append.into_raft() {
            Ok(request) => request,
            Err(e) => return unavailable(e),
        };
        let _taking_entries = self.append_gate.read().await;
        match self.raft.append_entries(request).await {
            Ok(response) => {
                let higher = matches!(response, openraft::raft::AppendEntriesResponse::HigherVote(_));
                if !higher {
                    self.hear_leader(term, committed);
                }
                Reply::Append(response.into())
            }
            Err(e) => unavailable(e),
        }
    }

    /// Hands a received snapshot to openraft, which must not happen while entries that it replaces are being taken
    /// or applied: openraft 0.10.0-alpha.37 would look for entries that are purged already, and its core would
    /// panic.
    async fn install(&self, leader: Vote, meta: SnapshotMeta, staged: Staged) -> io::Result<RaftVote> {
        let raft_meta = snapshot::raft_meta(&meta)?;
        let last = raft_meta.last_log_id;
        let gate = self.append_gate.write().await;
        if !self.log_rests_under(leader).await? {
            return Err(io::Error::other("this node follows another leader by now"));
        }
        let data = SnapshotData::Staged(Box::new(staged));
        let snapshot = openraft::Snapshot { meta: raft_meta, snapshot: data };
        let install = self.raft.install_full_snapshot(raft_vote(leader), snapshot);
        tokio::pin!(install);
        // Entries may come again as soon as openraft knows of the snapshot; the tables follow in their order.
        let known = async {
            while self
                .raft
                .with_raft_state(move |state| state.snapshot_meta.last_log_id < last)
                .await
                .unwrap_or(false)
            {
                sleep(REST_PAUSE).await;
            }
        };
        let early = tokio::select! {
            biased;
            done = &mut install => Some(done),
            () = known => None,
        };
        drop(gate);
        let done = match early {
            Some(done) => done,
            None => install.await,
        };
        done.map(|response| response.vote).map_err(io::Error::other)
    }

    /// Waits until everything in this node's log is on disk, and applied as far as it is committed. Gives whether
    /// the node still follows that leader.
    async fn log_rests_under(&self, leader: Vote) -> io::Result<bool> {
        loop {
            let (current, committed) = self
                .raft
                .with_raft_state(|state| (*state.vote_ref(), state.local_committed().copied()))
                .await
                .map_err(io::Error::other)?;
            if current != raft_vote(leader) {
                return Ok(false);
            }
            let committed = committed.as_ref().map(crate::consensus::types::log_id);
            let flushed = self.context.log.oldest_wait().is_none();
            if flushed && self.published.applied() >= committed {
                return Ok(true);
            }
            sleep(REST_PAUSE).await;
        }
    }

    /// What this node knows of the cluster's birth.
    pub(crate) fn birth_facts(&self) -> BirthFacts {
        let mut members: Vec<(u64, String)> =
            self.context.options.members.iter().map(|m| (m.id, m.address.clone())).collect();
        members.sort();
        BirthFacts {
            cluster_id: self.context.directory.cluster_id(),
            initialized: self.is_initialized(),
            members,
            fingerprint: self.birth_fingerprint,
        }
    }
}

impl PeerSession {
    async fn answer_snapshot(&self, request: Request) -> Reply {
        match self.snapshot_part(request).await {
            Ok(reply) => reply,
            Err(e) => {
                tracing::warn!("snapshot of node {} is not taken: {e}", self.from.node_id);
                unavailable(e)
            }
        }
    }

    async fn snapshot_part(&self, request: Request) -> io::Result<Reply> {
        let core = &self.core;
        let mut incoming = self.incoming.lock().await;
        let current = core.context.log.state().vote.unwrap_or_default();
        match request {
            Request::SnapshotBegin { vote: leader, meta } => {
                if raft_vote(current) > raft_vote(leader) {
                    return Ok(Reply::Snapshot { vote: current });
                }
                if core.context.directory.space() != SpaceLevel::Ok {
                    return Err(io::Error::other("the disk is nearly full"));
                }
                let snapshots = Arc::clone(&core.snapshots);
                *incoming = None;
                let receiving = blocking(move || Receiving::begin(meta, &snapshots)).await?;
                *incoming = Some(Incoming { leader, receiving });
                Ok(Reply::Snapshot { vote: leader })
            }
            Request::SnapshotChunks { first, chunks } => {
                let Some(Incoming { leader, mut receiving }) = incoming.take() else {
                    return Err(no_begin());
                };
                let receiving = blocking(move || {
                    receiving.chunks(first, &chunks)?;
                    Ok(receiving)
                })
                .await?;
                *incoming = Some(Incoming { leader, receiving });
                Ok(Reply::Snapshot { vote: leader })
            }
            Request::SnapshotEnd { chunks } => {
                let Some(Incoming { leader, receiving }) = incoming.take() else { return Err(no_begin()) };
                let (meta, staged) = blocking(move || receiving.finish(chunks)).await?;
                tracing::info!("received snapshot {} of node {}", meta.last, self.from.node_id);
                let theirs = core.install(leader, meta, staged).await?;
                Ok(Reply::Snapshot { vote: vote(&theirs) })
            }
            _ => Ok(wrong_lane()),
        }
    }

    async fn answer_call(&self, request: Request) -> Reply {
        if matches!(request, Request::Birth) {
            return Reply::Birth(self.core.birth_facts());
        }
        if !self.core.context.is_member(&self.from) {
            return Reply::Unavailable(format!("node {} is not a member", self.from.node_id));
        }
        match request {
            Request::Propose { command, time_left_ms } => self.core.propose_for(*command, time_left_ms).await,
            Request::Barrier { time_left_ms } => self.core.barrier_for(time_left_ms).await,
            Request::Transfer { to, time_left_ms } => self.core.transfer_for(to, in_ms(time_left_ms)).await,
            Request::ChangeMembers { change, time_left_ms } => {
                self.core.change_members_for(self.from.node_id, change, in_ms(time_left_ms)).await
            }
            Request::StateHash { index } => self.core.state_hash_at(index).await,
            Request::Diverged { index } => {
                self.core.note_divergence(self.from.node_id, index);
                Reply::Noted
            }
            _ => wrong_lane(),
        }
    }
}

fn in_ms(time_left_ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(time_left_ms)
}

fn no_begin() -> io::Error {
    io::Error::other("a part of a snapshot that has not begun")
}

#[cfg(test)]
pub(crate) mod tests;
