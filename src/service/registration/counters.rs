//! Outcomes of registrations, for metrics.

use crate::counter::Counter;

/// Registrations by outcome, since the process started.
#[derive(Debug, Default)]
pub struct RegistrationCounters {
    /// Recognised by the body digest: nothing was parsed.
    pub known_digest: Counter,
    /// Parsed, and found to change nothing.
    pub unchanged: Counter,
    /// Proposed as a difference.
    pub differences: Counter,
    /// Proposed whole.
    pub wholes: Counter,
    /// Differences that met another group version and were computed again.
    pub conflicts: Counter,
    /// Lost against a higher stateVersion.
    pub outdated: Counter,
    /// Refused: bad checksum, unreadable, or a first registration with a single topic.
    pub refused: Counter,
    /// Taken though no client can connect to the broker's address.
    pub implausible_addresses: Counter,
    /// Failed since no leader confirmed or committed them in time.
    pub no_leader: Counter,
}
