//! How far a node must catch up that starts, or has heard no leader for a while: a read index of the leader, asked for
//! after that.
//!
//! A message of the leader would not do: it may have been made before this process began, or was paused, and more was
//! committed and acknowledged before it arrived.

use super::read_barrier::ReadBarrier;
use crate::leader::leadership::Leadership;
use crate::leader::recovery::Recovery;
use crate::local::LocalNode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// For one question.
const ASK_MAX: Duration = Duration::from_secs(2);
/// Between two questions.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Asks the leader how far this node must catch up.
pub(crate) struct CatchUp {
    local: Arc<LocalNode>,
    leadership: Arc<Leadership>,
    recovery: Arc<Recovery>,
    read_barrier: Arc<ReadBarrier>,
}

impl CatchUp {
    /// For this node.
    pub(crate) fn new(
        local: Arc<LocalNode>,
        leadership: Arc<Leadership>,
        recovery: Arc<Recovery>,
        read_barrier: Arc<ReadBarrier>,
    ) -> Self {
        Self { local, leadership, recovery, read_barrier }
    }

    /// Asks whenever this node has not caught up, until it stops.
    pub(crate) async fn run(self) {
        let stop = self.local.lifecycle.stop.clone();
        stop.run_until_cancelled(self.follow()).await;
    }

    async fn follow(&self) {
        loop {
            if !self.leadership.has_caught_up() && self.leadership.leader_to_ask().is_some() {
                self.catch_up(self.leadership.contact()).await;
            }
            sleep(ASK_AGAIN_AFTER).await;
        }
    }

    async fn catch_up(&self, contact: u64) {
        let deadline = Instant::now() + ASK_MAX;
        if self.recovery.is_recovered() {
            if self.read_barrier.wait(deadline).await.is_ok() {
                self.leadership.caught_up(contact);
            }
        } else if let Ok(index) = self.read_barrier.index(deadline).await {
            // To apply all that may take long. Once this node has recovered, it has caught up.
            self.recovery.set_target(index, contact);
            self.recovery.recovered().await;
        }
    }
}
