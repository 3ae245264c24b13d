//! Whether this node has applied, since its start, what the cluster had committed.

use crate::api::Phase;
use crate::consensus::applied_state::AppliedStatePublisher;
use crate::local::LocalNode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// Whether this node has applied, since its start, what the cluster had committed.
pub(crate) struct Recovery {
    local: Arc<LocalNode>,
    applied: Arc<AppliedStatePublisher>,
    /// The index to apply: the leader's read index.
    target: watch::Sender<Option<u64>>,
    recovered: AtomicBool,
}

impl Recovery {
    /// Not recovered yet.
    pub(crate) fn new(local: Arc<LocalNode>, applied: Arc<AppliedStatePublisher>) -> Self {
        Self { local, applied, target: watch::Sender::default(), recovered: AtomicBool::new(false) }
    }

    /// Whether this node belongs to a cluster: its disk has a log or a snapshot.
    pub(crate) fn is_initialized(&self) -> bool {
        self.local.log.state().last.is_some() || self.applied.applied().is_some()
    }

    /// Whether it has recovered.
    pub(crate) fn is_recovered(&self) -> bool {
        self.recovered.load(Ordering::Acquire)
    }

    /// The index to apply, once it is known.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<u64>> {
        self.target.subscribe()
    }

    /// The leader's read index, asked for since this process began.
    pub(crate) fn set_target(&self, index: u64) {
        self.target.send_replace(Some(index));
    }

    /// Checks whether the node has recovered just now. `leading`: it leads, and so has applied all that was committed.
    pub(crate) fn completes(&self, leading: bool) -> bool {
        if self.is_recovered() {
            return false;
        }
        let applied = self.applied.applied();
        let target = *self.target.borrow();
        let reached = target.is_some_and(|index| applied.is_some_and(|id| id.index >= index));
        // The initial commands of a cluster are its settings: answers before these are in force would be wrong.
        if !(leading || reached) || !self.applied.has_initial_commands() {
            return false;
        }
        self.applied.end_replay();
        self.recovered.store(true, Ordering::Release);
        tracing::info!("recovered: applied what was committed, up to {applied:?}");
        true
    }

    /// The phase of this node.
    pub(crate) fn phase(&self) -> Phase {
        if self.local.lifecycle.is_stopping() {
            Phase::Stopping
        } else if self.local.members.is_removed() {
            Phase::Removed
        } else if !self.is_initialized() {
            Phase::Waiting
        } else if self.is_recovered() {
            Phase::Recovered
        } else {
            Phase::Recovering
        }
    }
}
