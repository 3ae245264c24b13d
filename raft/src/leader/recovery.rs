//! Whether this node has applied, since its start, what the cluster had committed.

use super::leadership::Leadership;
use crate::api::Phase;
use crate::consensus::applied_state::AppliedStatePublisher;
use crate::local::LocalNode;
use std::sync::Arc;
use tokio::sync::watch;

/// Whether this node has applied, since its start, what the cluster had committed.
pub(crate) struct Recovery {
    local: Arc<LocalNode>,
    applied: Arc<AppliedStatePublisher>,
    leadership: Arc<Leadership>,
    /// What to apply.
    target: watch::Sender<Option<Target>>,
    recovered: watch::Sender<bool>,
}

/// What a node that starts has to apply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// The leader's read index.
    index: u64,
    /// The contact in which the leader was asked.
    contact: u64,
}

impl Recovery {
    /// Not recovered yet.
    pub(crate) fn new(
        local: Arc<LocalNode>,
        applied: Arc<AppliedStatePublisher>,
        leadership: Arc<Leadership>,
    ) -> Self {
        Self {
            local,
            applied,
            leadership,
            target: watch::Sender::default(),
            recovered: watch::Sender::default(),
        }
    }

    /// Whether this node belongs to a cluster: its disk has a log or a snapshot.
    pub(crate) fn is_initialized(&self) -> bool {
        self.local.log.state().last.is_some() || self.applied.applied().is_some()
    }

    /// Whether it has recovered.
    pub(crate) fn is_recovered(&self) -> bool {
        *self.recovered.borrow()
    }

    /// Resolves once it has recovered.
    pub(crate) async fn recovered(&self) {
        // The channel is never closed before this.
        let _ = self.recovered.subscribe().wait_for(|recovered| *recovered).await;
    }

    /// What to apply, once it is known.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Target>> {
        self.target.subscribe()
    }

    /// The leader's read index, asked for since this process began, in this contact.
    pub(crate) fn set_target(&self, index: u64, contact: u64) {
        self.target.send_replace(Some(Target { index, contact }));
    }

    /// Checks whether the node has recovered just now. `leading`: it leads, and so has applied all that was committed.
    pub(crate) fn completes(&self, leading: bool) -> bool {
        if self.is_recovered() {
            return false;
        }
        let applied = self.applied.applied();
        let target = *self.target.borrow();
        let reached = target.filter(|target| applied.is_some_and(|id| id.index >= target.index));
        // With a lease nobody else has committed anything since. This call notes the contact with itself.
        let leads = leading && self.leadership.lease().is_some() && self.leadership.since_contact().is_some();
        let contact =
            if leads { Some(self.leadership.contact()) } else { reached.map(|target| target.contact) };
        // The initial commands of a cluster are its settings: answers before these are in force would be wrong.
        let Some(contact) = contact.filter(|_| self.applied.has_initial_commands()) else { return false };
        self.leadership.caught_up(contact);
        self.applied.end_replay();
        self.recovered.send_replace(true);
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
