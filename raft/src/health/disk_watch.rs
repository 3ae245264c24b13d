//! A disk that hangs or fills up: refuse commands, hand leadership over, and in the end exit.

use crate::leader::core::Core;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use storage::disk::{SpaceLevel, Watchdog, WriteLevel, WriteLimits};
use tokio::time::{Instant, sleep};

/// Between two looks at the room on the disk.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// A leader that could not hand over for so many of the longest election timeouts falls silent, so that the others
/// elect one.
const SILENT_TIMEOUTS: u32 = 3;
/// To hand over.
const TRANSFER_MAX: Duration = Duration::from_secs(1);
/// Between two attempts to hand over since the disk is nearly full.
const LOW_PAUSE: Duration = Duration::from_secs(10);
/// The matter of the notices.
const MATTER: &str = "disk";

/// Starts the watchdog: a thread of its own, for a disk that hangs may hold the whole runtime up.
pub(crate) fn watchdog(core: &Core) -> io::Result<Watchdog> {
    let timeout = Duration::from_millis(core.context.options.timing.election_max_ms);
    let log = Arc::clone(&core.context.log);
    Watchdog::start(WriteLimits::for_election_timeout(timeout), move || log.oldest_wait())
}

/// Acts on what the watchdog says, until the node stops.
pub(crate) async fn run(core: Arc<Core>, watchdog: Watchdog) {
    let mut levels = watchdog.levels();
    let mut watch = Watch { core, slow_since: None, silent: false, low_since: None };
    loop {
        let level = *levels.borrow_and_update();
        if level == WriteLevel::Dead {
            watch.core.die("the disk does not answer any more".into());
            return;
        }
        watch.writes(level).await;
        watch.space(level).await;
        let stop = watch.core.context.stop.clone();
        tokio::select! {
            biased;
            changed = levels.changed() => if changed.is_err() { return },
            () = sleep(LOOK_PAUSE) => {}
            () = stop.cancelled() => return,
        }
    }
}

struct Watch {
    core: Arc<Core>,
    slow_since: Option<Instant>,
    /// Heartbeats are off.
    silent: bool,
    low_since: Option<Instant>,
}

impl Watch {
    async fn writes(&mut self, level: WriteLevel) {
        let core = &self.core;
        let slow = level != WriteLevel::Ok;
        let was_slow = core.disk_hung.swap(slow, Ordering::AcqRel);
        if slow != was_slow {
            // Its own vote could not be written anyway: a candidacy would only disturb.
            core.raft.runtime_config().elect(!slow);
        }
        if slow {
            let waits = core.context.log.oldest_wait().unwrap_or_default().as_millis();
            core.context.notices.set(MATTER, format!("the disk has not answered for {waits} ms"));
        }
        let leads = core.leadership().leader == Some(core.id());
        if slow && !was_slow {
            self.slow_since = Some(Instant::now());
            if leads {
                hand_over(core).await;
            }
        }
        let silent_after =
            SILENT_TIMEOUTS * Duration::from_millis(core.context.options.timing.election_max_ms);
        if slow && leads && !self.silent && self.slow_since.is_some_and(|at| at.elapsed() > silent_after) {
            tracing::warn!("the disk hangs and nobody took over: this leader falls silent");
            core.raft.runtime_config().heartbeat(false);
            self.silent = true;
        }
        if self.silent && (!slow || !leads) {
            core.raft.runtime_config().heartbeat(true);
            self.silent = false;
        }
    }

    async fn space(&mut self, level: WriteLevel) {
        let core = &self.core;
        if core.context.directory.space() == SpaceLevel::Ok {
            if level == WriteLevel::Ok {
                core.context.notices.clear(MATTER);
            }
            self.low_since = None;
            return;
        }
        core.context.notices.set(MATTER, "the disk is nearly full: commands are refused".into());
        if self.low_since.is_some_and(|since| since.elapsed() < LOW_PAUSE) {
            return;
        }
        self.low_since = Some(Instant::now());
        if core.leadership().leading {
            hand_over(core).await;
        }
    }
}

async fn hand_over(core: &Arc<Core>) {
    match core.transfer(None, Instant::now() + TRANSFER_MAX).await {
        Ok(leader) => tracing::warn!("leadership is handed to node {leader} since this disk is in trouble"),
        Err(e) => tracing::warn!("leadership cannot be handed over although this disk is in trouble: {e}"),
    }
}
