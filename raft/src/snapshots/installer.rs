//! When openraft may install a received snapshot.

use crate::consensus::applied_state::AppliedStatePublisher;
use crate::consensus::raft::Raft;
use crate::consensus::snapshot::{self, SnapshotData, Staged};
use crate::consensus::types::{RaftVote, log_id, raft_vote};
use crate::local::LocalNode;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use storage::Vote;
use storage::snapshots::SnapshotMeta;
use tokio::sync::{RwLock, RwLockReadGuard};
use tokio::time::sleep;

/// Between two looks at whether the log is at rest.
const REST_PAUSE: Duration = Duration::from_millis(5);

/// Hands received snapshots to openraft.
pub(crate) struct SnapshotInstaller {
    local: Arc<LocalNode>,
    raft: Raft,
    applied: Arc<AppliedStatePublisher>,
    /// Held shared while openraft takes entries, and alone while it takes a snapshot.
    append_gate: RwLock<()>,
}

impl SnapshotInstaller {
    /// The installer of this node.
    pub(crate) fn new(local: Arc<LocalNode>, raft: Raft, applied: Arc<AppliedStatePublisher>) -> Self {
        Self { local, raft, applied, append_gate: RwLock::default() }
    }

    /// To be held while openraft takes entries.
    pub(crate) async fn appending(&self) -> RwLockReadGuard<'_, ()> {
        self.append_gate.read().await
    }

    /// The same, if it need not be waited for.
    pub(crate) fn try_appending(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.append_gate.try_read().ok()
    }

    /// Hands a received snapshot to openraft. That must not happen while openraft takes or applies entries that the
    /// snapshot replaces: openraft 0.10.0-alpha.37 would look for entries that are purged already, and its core would
    /// panic.
    pub(crate) async fn install(
        &self,
        leader: Vote,
        meta: SnapshotMeta,
        staged: Staged,
    ) -> io::Result<RaftVote> {
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
            let committed = committed.as_ref().map(log_id);
            let flushed = self.local.log.oldest_wait().is_none();
            if flushed && self.applied.applied() >= committed {
                return Ok(true);
            }
            sleep(REST_PAUSE).await;
        }
    }
}
