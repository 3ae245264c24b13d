//! A disk that hangs or fills up: refuse commands, hand leadership over, and in the end exit.

use crate::api::Space;
use crate::core::Core;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// A write that waits so many of the longest election timeouts means that the disk hangs.
const HUNG_TIMEOUTS: u32 = 3;
/// A leader that could not hand over for as long again falls silent, so that the others elect one.
const SILENT_TIMEOUTS: u32 = 6;
/// A disk that hangs so long ends the process.
const HUNG_MAX: Duration = Duration::from_secs(30);
/// To hand over.
const TRANSFER_MAX: Duration = Duration::from_secs(1);
/// Between two attempts to hand over since the disk is nearly full.
const LOW_PAUSE: Duration = Duration::from_secs(10);
/// The matter of the notices.
const MATTER: &str = "disk";

/// Runs until the node stops.
pub(crate) async fn run(core: Arc<Core>) {
    let timeout = Duration::from_millis(core.context.options.timing.election_max_ms);
    let mut low_since: Option<Instant> = None;
    let mut silent = false;
    loop {
        tokio::select! {
            () = sleep(LOOK_PAUSE) => {}
            () = core.context.stop.cancelled() => return,
        }
        let waits = core.context.log.oldest_wait().unwrap_or_default();
        let hung = waits > HUNG_TIMEOUTS * timeout;
        let was_hung = core.disk_hung.swap(hung, Ordering::AcqRel);
        if hung != was_hung {
            // With a disk that hangs it cannot vote for itself anyway, and would only disturb.
            core.raft.runtime_config().elect(!hung);
        }
        if waits > HUNG_MAX {
            core.die(format!("the disk has not answered for {} s", waits.as_secs()));
            return;
        }
        if hung {
            core.context
                .notices
                .set(MATTER, format!("the disk has not answered for {} ms", waits.as_millis()));
            let leads = core.leadership().leader == Some(core.id());
            if leads && !was_hung {
                hand_over(&core).await;
            }
            if leads && waits > SILENT_TIMEOUTS * timeout && !silent {
                tracing::warn!("the disk hangs and nobody took over: this leader falls silent");
                core.raft.runtime_config().heartbeat(false);
                silent = true;
            }
        }
        if silent && (!hung || core.leadership().leader != Some(core.id())) {
            core.raft.runtime_config().heartbeat(true);
            silent = false;
        }
        low_since = watch_space(&core, hung, low_since).await;
    }
}

async fn watch_space(core: &Arc<Core>, hung: bool, low_since: Option<Instant>) -> Option<Instant> {
    let space = core.context.directory.space();
    if space == Space::Enough {
        if !hung {
            core.context.notices.clear(MATTER);
        }
        return None;
    }
    core.context.notices.set(MATTER, "the disk is nearly full: commands are refused".into());
    if low_since.is_some_and(|since| since.elapsed() < LOW_PAUSE) {
        return low_since;
    }
    if core.leadership().leading {
        hand_over(core).await;
    }
    Some(Instant::now())
}

async fn hand_over(core: &Arc<Core>) {
    match core.transfer(None, Instant::now() + TRANSFER_MAX).await {
        Ok(leader) => tracing::warn!("leadership is handed to node {leader} since this disk is in trouble"),
        Err(e) => tracing::warn!("leadership cannot be handed over although this disk is in trouble: {e}"),
    }
}
