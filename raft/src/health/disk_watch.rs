//! A disk that hangs or fills up: this node refuses commands, transfers leadership, and in the end exits.

use crate::consensus::raft::{Raft, committed, matched};
use crate::leader::leadership::Leadership;
use crate::local::LocalNode;
use crate::membership::transfer::LeadershipTransfer;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use storage::LogId;
use storage::disk::{SpaceLevel, Watchdog, WriteLevel, WriteLimits};
use tokio::time::{Instant, sleep};

/// Between two looks at the space on the disk.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// Between two looks while the disk is slow.
const SLOW_LOOK_PAUSE: Duration = Duration::from_millis(100);
/// A majority is faster than a slow disk when it is ahead for so long. Disks that nodes share are slow together.
const BEHIND_MIN: Duration = Duration::from_millis(500);
/// A leader that could not transfer leadership for so many of the longest election timeouts stops its heartbeats, so that
/// the others elect a leader.
const SILENT_TIMEOUTS: u32 = 3;
/// To transfer leadership.
const TRANSFER_MAX: Duration = Duration::from_secs(1);
/// Between two attempts to transfer leadership since the disk is nearly full.
const LOW_PAUSE: Duration = Duration::from_secs(10);
/// Alert key of a disk that hangs.
const HUNG: &str = "disk";
/// Alert key of a disk that fills up.
const SPACE: &str = "disk space";

/// Starts the watchdog on a thread of its own: a disk that hangs may hold up the whole runtime.
pub(crate) fn watchdog(local: &LocalNode) -> io::Result<Watchdog> {
    let timeout = Duration::from_millis(local.options.timing.election_max_ms);
    let log = Arc::clone(&local.log);
    Watchdog::start(WriteLimits::for_election_timeout(timeout), move || log.oldest_wait())
}

/// Acts on the watchdog's levels and on the space on the disk.
pub(crate) struct DiskWatch {
    local: Arc<LocalNode>,
    raft: Raft,
    leadership: Arc<Leadership>,
    transfer: Arc<LeadershipTransfer>,
    slow: bool,
    /// The last entry that this node's disk has, while a majority has more, and since when.
    behind: Option<(Option<LogId>, Instant)>,
    /// Since when the disk is slower than those of a majority.
    hung_since: Option<Instant>,
    /// Heartbeats are off.
    silent: bool,
    low_since: Option<Instant>,
}

impl DiskWatch {
    /// A watch over a disk that answers.
    pub(crate) fn new(
        local: Arc<LocalNode>,
        raft: Raft,
        leadership: Arc<Leadership>,
        transfer: Arc<LeadershipTransfer>,
    ) -> Self {
        Self {
            local,
            raft,
            leadership,
            transfer,
            slow: false,
            behind: None,
            hung_since: None,
            silent: false,
            low_since: None,
        }
    }

    /// Runs until the node stops.
    pub(crate) async fn run(mut self, watchdog: Watchdog) {
        let mut levels = watchdog.levels();
        loop {
            let level = *levels.borrow_and_update();
            if level == WriteLevel::Dead {
                self.local.lifecycle.fail("the disk does not answer any more".into());
                return;
            }
            self.watch_writes(level).await;
            self.watch_space().await;
            tokio::select! {
                biased;
                changed = levels.changed() => if changed.is_err() { return },
                () = sleep(if self.slow { SLOW_LOOK_PAUSE } else { LOOK_PAUSE }) => {}
                () = self.local.lifecycle.stop.cancelled() => return,
            }
        }
    }

    async fn watch_writes(&mut self, level: WriteLevel) {
        let slow = level != WriteLevel::Ok;
        if self.slow != slow {
            self.slow = slow;
            // This node could not write its own vote: a candidacy would only disturb the others.
            self.raft.runtime_config().elect(!slow);
        }
        match slow {
            true => {
                let text =
                    "this node's disk does not answer a write: commands that need it wait or are refused";
                self.local.alerts.set(HUNG, text.into());
            }
            false => self.local.alerts.clear(HUNG),
        }
        let leads = self.leadership.state().leader == Some(self.local.id());
        let should_yield = self.others_write_on() && slow;
        let was_hung = self.local.disk.set_hung(should_yield);
        if should_yield && !was_hung {
            self.hung_since = Some(Instant::now());
            if leads {
                self.transfer_leadership().await;
            }
        }
        self.stop_heartbeats_if(should_yield && leads);
    }

    /// Whether a majority has on disk for a while what this node's disk has not. Without such a majority another leader
    /// would commit no more than this one, and its election would wait for the same slow disks.
    fn others_write_on(&mut self) -> bool {
        let own = matched(&self.raft).into_iter().find(|(id, _)| *id == self.local.id());
        let own = own.and_then(|(_, last)| last);
        if committed(&self.raft) <= own {
            self.behind = None;
            return false;
        }
        let (at, since) = *self.behind.get_or_insert_with(|| (own, Instant::now()));
        if at != own {
            self.behind = Some((own, Instant::now()));
            return false;
        }
        since.elapsed() >= BEHIND_MIN
    }

    /// Stops the heartbeats of a leader that should be replaced and could not transfer its leadership.
    fn stop_heartbeats_if(&mut self, should_yield: bool) {
        let silent_after = SILENT_TIMEOUTS * self.leadership.election_timeout_max();
        let is_due = should_yield && self.hung_since.is_some_and(|at| at.elapsed() > silent_after);
        if is_due && !self.silent {
            tracing::warn!("the disk hangs and no other node leads: this leader stops its heartbeats");
            self.raft.runtime_config().heartbeat(false);
            self.silent = true;
        }
        if self.silent && !should_yield {
            self.raft.runtime_config().heartbeat(true);
            self.silent = false;
        }
    }

    async fn watch_space(&mut self) {
        let text = match self.local.disk.space() {
            SpaceLevel::Ok => {
                self.local.alerts.clear(SPACE);
                self.low_since = None;
                return;
            }
            SpaceLevel::Low => {
                "this node's disk is nearly full: while it leads, commands are refused; free space on it"
            }
            SpaceLevel::Min => {
                "this node's disk is nearly full: it takes no more entries, and refuses commands while it leads; free \
                 space on it"
            }
        };
        self.local.alerts.set(SPACE, text.into());
        if self.low_since.is_some_and(|since| since.elapsed() < LOW_PAUSE) {
            return;
        }
        self.low_since = Some(Instant::now());
        if self.leadership.state().leading {
            self.transfer_leadership().await;
        }
    }

    async fn transfer_leadership(&self) {
        match self.transfer.transfer(None, Instant::now() + TRANSFER_MAX).await {
            Ok(leader) => {
                tracing::warn!("leadership went to node {leader}, since this node's disk is in trouble")
            }
            Err(e) => {
                tracing::warn!(
                    "leadership cannot be transferred, although this node's disk is in trouble: {e}"
                );
            }
        }
    }
}
