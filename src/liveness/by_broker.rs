//! Maps from brokers whose order nobody sees.
//!
//! Each heartbeat looks its broker up in several of them, mostly after other work has emptied the processor's caches: a
//! search among sorted keys then waits for memory a dozen times, and one by hash two or three times.

use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hasher};
use storage::route_info::BrokerKey;

/// A map by broker.
pub(super) type BrokerMap<V> = HashMap<BrokerKey, V, Keyed>;

/// Hashes under a key: whoever chooses brokers' names must not be able to choose their hashes. The standard library's own
/// random key would not do, since a simulated run must follow from its seed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Keyed(pub(super) u64);

impl BuildHasher for Keyed {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}

/// For tests: a broker by number.
#[cfg(test)]
pub(super) fn key(n: usize) -> BrokerKey {
    BrokerKey { cluster: "c".into(), address: format!("{n}").into() }
}
