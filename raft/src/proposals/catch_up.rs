//! How far a node that starts must catch up: a read index of the leader, asked for after this process began.
//!
//! A message of the leader would not do: it may have been made before this process began, and more was committed and
//! acknowledged before it arrived.

use super::read_barrier::ReadBarrier;
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
    recovery: Arc<Recovery>,
    read_barrier: Arc<ReadBarrier>,
}

impl CatchUp {
    /// For this node.
    pub(crate) fn new(
        local: Arc<LocalNode>,
        recovery: Arc<Recovery>,
        read_barrier: Arc<ReadBarrier>,
    ) -> Self {
        Self { local, recovery, read_barrier }
    }

    /// Asks until there is an answer, this node leads, or it stops.
    pub(crate) async fn run(self) {
        let stop = self.local.lifecycle.stop.clone();
        stop.run_until_cancelled(self.ask()).await;
    }

    async fn ask(&self) {
        while !self.recovery.is_recovered() {
            if let Ok(index) = self.read_barrier.index(Instant::now() + ASK_MAX).await {
                return self.recovery.set_target(index);
            }
            sleep(ASK_AGAIN_AFTER).await;
        }
    }
}
