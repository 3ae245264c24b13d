//! When snapshots are made and the log is purged. openraft's own policy is off: it knows no bytes, and a snapshot
//! that cannot be written would be the end of its core.

use crate::consensus::runtime::blocking;
use crate::consensus::snapshot;
use crate::leader::core::Core;
use std::sync::Arc;
use std::time::Duration;
use storage::LogId;
use storage::disk::SpaceLevel;
use tokio::time::{Instant, sleep};

/// Between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(200);
/// After a snapshot that could not be written.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// The matter of the notices.
const MATTER: &str = "snapshot";

/// Runs until the node stops.
pub(crate) async fn run(core: Arc<Core>) {
    let stop = core.context.stop.clone();
    let mut driver = Driver { core, bytes_at_last: 0, last_made: Instant::now(), not_before: Instant::now() };
    tokio::select! {
        biased;
        () = driver.run() => {}
        () = stop.cancelled() => {}
    }
}

struct Driver {
    core: Arc<Core>,
    /// Bytes appended when the last snapshot was made.
    bytes_at_last: u64,
    last_made: Instant,
    not_before: Instant,
}

impl Driver {
    async fn run(&mut self) {
        loop {
            let asked = tokio::select! {
                biased;
                () = sleep(LOOK_PAUSE) => false,
                () = self.core.snapshot_due.notified() => true,
            };
            if self.is_due(asked) {
                self.make().await;
            }
            self.purge().await;
        }
    }

    fn is_due(&self, asked: bool) -> bool {
        let core = &self.core;
        let Some(applied) = core.published.applied() else { return false };
        let newest = core.snapshots.latest().map(|meta| meta.last);
        // Nothing new, or nothing but a birth that has not happened.
        if newest >= Some(applied) || core.published.is_fresh() || Instant::now() < self.not_before {
            return false;
        }
        if core.context.directory.space() == SpaceLevel::Min {
            return false;
        }
        let policy = &core.context.options.snapshots;
        let entries = applied.index - newest.map_or(0, |id| id.index);
        let bytes = core.log.appended_bytes().saturating_sub(self.bytes_at_last);
        asked
            || entries >= policy.entries
            || bytes >= policy.log_bytes
            || self.last_made.elapsed() >= policy.age
    }

    async fn make(&mut self) {
        let core = &self.core;
        let bytes = core.log.appended_bytes();
        let (state, snapshots) = (core.published.state(), Arc::clone(&core.snapshots));
        let unix_ms = core.context.runtime.unix_ms();
        match blocking(move || snapshot::build(&state, &snapshots, unix_ms)).await {
            Ok(meta) => {
                tracing::info!("snapshot {} is made", meta.last);
                core.context.notices.clear(MATTER);
                self.bytes_at_last = bytes;
                self.last_made = Instant::now();
                if let Err(e) = core.raft.trigger().snapshot().await {
                    tracing::debug!("snapshot: {e}");
                }
            }
            Err(e) => {
                core.context.notices.set(MATTER, format!("no snapshot can be written: {e}"));
                self.not_before = Instant::now() + RETRY_PAUSE;
            }
        }
    }

    /// Purges behind the older of the two snapshots, and not past what a reachable member lacks, unless too much
    /// log is kept for it.
    async fn purge(&self) {
        let core = &self.core;
        let all = core.snapshots.all();
        let [older, _newer] = all.as_slice() else { return };
        let log = core.context.log.state();
        let mut upto = older.last;
        if log.bytes <= core.context.options.snapshots.log_bytes_max {
            for (id, matched) in core.matched() {
                if id != core.id() && core.peers.is_reachable(id) {
                    upto = upto.min(matched.unwrap_or(LogId { term: 0, index: 0 }));
                }
            }
        }
        if upto.index == 0 || log.purged.is_some_and(|purged| purged.index >= upto.index) {
            return;
        }
        if let Err(e) = core.raft.trigger().purge_log(upto.index).await {
            tracing::debug!("purge: {e}");
        }
    }
}
