//! Whether this node answers look-ups, and why not.

use crate::node::RunningNode;
use crate::service::Ready;
use raft::{Phase, Status};

/// Whether this node answers look-ups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// Whether it does.
    pub ready: bool,
    /// Why not; empty when it does.
    pub reason: String,
    /// It answers without a leader, so that responses may be stale.
    pub stale: bool,
}

impl Readiness {
    /// The readiness of a running node.
    pub(crate) fn of(running: &RunningNode) -> Self {
        let now = *running.service.ready().borrow();
        let reason = if now == Ready::No { not_ready_because(&running.node.status()) } else { String::new() };
        Self { ready: now != Ready::No, reason, stale: now == Ready::Stale }
    }
}

fn not_ready_because(status: &Status) -> String {
    let why = match status.phase {
        Phase::Waiting => "waiting for the cluster to bootstrap, or for this node to be added",
        Phase::Recovering => "has not yet applied what the leader had committed",
        Phase::Recovered => "has had no leader for longer than it may be stale",
        Phase::Removed => "is no longer a member",
        Phase::Stopping => "is stopping",
    };
    if status.alerts.is_empty() { why.to_owned() } else { format!("{why}: {}", status.alerts) }
}
