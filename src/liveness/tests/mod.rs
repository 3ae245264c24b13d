//! What the tests of this room share, and the rules that all of its parts hold together: trackers of three nodes, driven by
//! hand.

mod brokers;
mod guard_rules;
mod leader_rules;
mod rules;
mod world;

use std::time::Duration;
use storage::route_info::BrokerKey;

/// A broker by number.
pub(super) fn key(n: impl std::fmt::Display) -> BrokerKey {
    BrokerKey { cluster: "c".into(), address: format!("{n}").into() }
}

/// Milliseconds.
pub(super) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Seconds.
pub(super) const fn secs(n: u64) -> Duration {
    ms(n * 1_000)
}
