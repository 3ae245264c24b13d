//! Conflicts: two brokers claim one place.

use crate::counter::Counter;
use storage::outcome::ConflictKind;

/// Conflicts that this process has applied, for metrics.
#[derive(Debug, Default)]
pub struct ConflictCounters {
    /// Two live addresses under one name and id.
    pub address: Counter,
    /// One broker name in two clusters.
    pub cluster: Counter,
}

impl ConflictCounters {
    pub(super) fn count(&self, kind: ConflictKind) {
        match kind {
            ConflictKind::Address => self.address.add_one(),
            ConflictKind::Cluster => self.cluster.add_one(),
            // The node that received the registration counts these with its registrations.
            ConflictKind::StateVersion => {}
        }
    }
}

/// What two brokers claim, in words.
pub(crate) fn describe_conflict(kind: ConflictKind) -> &'static str {
    match kind {
        ConflictKind::Address => "two addresses claim one broker name and id",
        ConflictKind::Cluster => "one broker name in two clusters",
        ConflictKind::StateVersion => "a registration lost against a higher stateVersion",
    }
}
