//! When snapshots are made and the log is purged. openraft's own policy is off: it does not count bytes, and a snapshot
//! that cannot be written would end its core.

use crate::consensus::applied_state::AppliedStatePublisher;
use crate::consensus::log_store::LogStore;
use crate::consensus::raft::{Raft, matched};
use crate::consensus::snapshot;
use crate::local::{LocalNode, blocking};
use crate::peer::peers::Peers;
use std::sync::Arc;
use std::time::Duration;
use storage::LogId;
use storage::disk::SpaceLevel;
use storage::snapshots::Snapshots;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// Between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(200);
/// After a snapshot that could not be written.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// Alert key.
const ALERT: &str = "snapshot";

/// Makes snapshots, and purges the log behind them.
pub(crate) struct SnapshotDriver {
    local: Arc<LocalNode>,
    raft: Raft,
    log: LogStore,
    applied: Arc<AppliedStatePublisher>,
    snapshots: Arc<dyn Snapshots>,
    peers: Arc<Peers>,
    /// A snapshot is wanted now.
    due: Arc<Notify>,
    last: LastSnapshot,
}

/// The last snapshot that this process made.
struct LastSnapshot {
    /// Bytes that had been appended to the log then.
    log_bytes: u64,
    /// Its own size, bytes.
    bytes: u64,
    made: Instant,
    /// No attempt before this: the last one failed.
    retry_at: Instant,
}

impl SnapshotDriver {
    /// A driver that has made no snapshot yet. `due`: notified when a snapshot is wanted now.
    pub(crate) fn new(
        local: Arc<LocalNode>,
        raft: Raft,
        log: LogStore,
        applied: Arc<AppliedStatePublisher>,
        snapshots: Arc<dyn Snapshots>,
        peers: Arc<Peers>,
        due: Arc<Notify>,
    ) -> Self {
        let now = Instant::now();
        let last = LastSnapshot { log_bytes: 0, bytes: 0, made: now, retry_at: now };
        Self { local, raft, log, applied, snapshots, peers, due, last }
    }

    /// Runs until the node stops.
    pub(crate) async fn run(mut self) {
        let stop = self.local.lifecycle.stop.clone();
        tokio::select! {
            biased;
            () = self.drive() => {}
            () = stop.cancelled() => {}
        }
    }

    async fn drive(&mut self) {
        loop {
            let wanted = tokio::select! {
                biased;
                () = sleep(LOOK_PAUSE) => false,
                () = self.due.notified() => true,
            };
            if self.is_due(wanted) {
                self.make().await;
            }
            self.purge().await;
        }
    }

    fn is_due(&self, wanted: bool) -> bool {
        let Some(applied) = self.applied.applied() else { return false };
        let newest = self.snapshots.latest().map(|meta| meta.last);
        if newest >= Some(applied) {
            // Perhaps one of the leader's, after an own one could not be written.
            self.local.alerts.clear(ALERT);
            return false;
        }
        // The bootstrap is not complete, or the last attempt has failed just now.
        if !self.applied.has_initial_commands() || Instant::now() < self.last.retry_at {
            return false;
        }
        if self.local.disk.space() == SpaceLevel::Min {
            return false;
        }
        let policy = &self.local.options.snapshots;
        let entries = applied.index - newest.map_or(0, |id| id.index);
        let bytes = self.log.appended_bytes().saturating_sub(self.last.log_bytes);
        wanted
            || entries >= policy.entries
            // Of a large state not for each small part of it: the disk would write little else.
            || bytes >= policy.log_bytes.max(self.last.bytes)
            || self.last.made.elapsed() >= policy.age
    }

    async fn make(&mut self) {
        let log_bytes = self.log.appended_bytes();
        let (state, snapshots) = (self.applied.state(), Arc::clone(&self.snapshots));
        let unix_ms = self.local.runtime.unix_ms();
        match blocking(move || snapshot::build(&state, &snapshots, unix_ms)).await {
            Ok((meta, bytes)) => {
                tracing::info!("made snapshot {}", meta.last);
                self.local.alerts.clear(ALERT);
                self.last.log_bytes = log_bytes;
                self.last.bytes = bytes;
                self.last.made = Instant::now();
                if let Err(e) = self.raft.trigger().snapshot().await {
                    tracing::debug!("snapshot: {e}");
                }
            }
            Err(e) => {
                self.local
                    .alerts
                    .set(ALERT, format!("this node cannot write a snapshot, and its log grows: {e}"));
                self.last.retry_at = Instant::now() + RETRY_PAUSE;
            }
        }
    }

    /// Purges behind the older of the two snapshots, and not past what a reachable member lacks, unless too much
    /// log is kept for it.
    async fn purge(&self) {
        let all = self.snapshots.all();
        let [older, _newer] = all.as_slice() else { return };
        let log = self.local.log.state();
        let mut upto = older.last;
        if log.bytes <= self.local.options.snapshots.log_bytes_max {
            for (id, matched) in matched(&self.raft) {
                if id != self.local.id() && self.peers.is_reachable(id) {
                    upto = upto.min(matched.unwrap_or(LogId { term: 0, index: 0 }));
                }
            }
        }
        if upto.index == 0 || log.purged.is_some_and(|purged| purged.index >= upto.index) {
            return;
        }
        if let Err(e) = self.raft.trigger().purge_log(upto.index).await {
            tracing::debug!("purge: {e}");
        }
    }
}
