//! Whether this node answers look-ups, and why not.

use crate::node::RunningNode;
use crate::service::Ready;
use raft::{Lag, Phase, Status};

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
        let ready = matches!(now, Ready::Yes | Ready::Stale);
        let reason = if ready { String::new() } else { not_ready_because(&running.node.status()) };
        Self { ready, reason, stale: now == Ready::Stale }
    }
}

fn not_ready_because(status: &Status) -> String {
    let why = match status.phase {
        Phase::Waiting => "waiting for the cluster to bootstrap, or for this node to be added".to_owned(),
        Phase::Recovering => "has not yet applied what the leader had committed".to_owned(),
        Phase::Recovered => lags_because(&status.lag),
        Phase::Removed => "is no longer a member".to_owned(),
        Phase::Stopping => "is stopping".to_owned(),
    };
    if status.alerts.is_empty() { why } else { format!("{why}: {}", status.alerts) }
}

fn lags_because(lag: &Lag) -> String {
    let behind = format!("{} entries behind the leader, for {} s now", lag.entries, lag.age.as_secs());
    match lag {
        Lag { disk_full: true, entries: 0, .. } => {
            "takes no entries from the leader: its disk is full".into()
        }
        Lag { disk_full: true, .. } => {
            format!("takes no entries from the leader, since its disk is full: {behind}")
        }
        Lag { is_behind: true, .. } => format!("does not keep up: {behind}"),
        _ => "has had no leader for longer than it may be stale".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_node_that_does_not_keep_up_says_by_how_much() {
        let lag = Lag { entries: 7, age: Duration::from_secs(61), is_behind: true, disk_full: false };
        assert_eq!(lags_because(&lag), "does not keep up: 7 entries behind the leader, for 61 s now");
        let full = Lag { disk_full: true, ..lag };
        let text = "takes no entries from the leader, since its disk is full: 7 entries behind the leader, for 61 s now";
        assert_eq!(lags_because(&full), text);
        let empty = Lag { entries: 0, ..full };
        assert_eq!(lags_because(&empty), "takes no entries from the leader: its disk is full");
        assert!(lags_because(&Lag::default()).contains("no leader"));
    }
}
