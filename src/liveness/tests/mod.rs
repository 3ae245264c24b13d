//! What the tests of this room share.

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
