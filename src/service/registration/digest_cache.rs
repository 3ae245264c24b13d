//! Registrations that were found to change nothing, by their body digest.

use super::known_topics::KnownTopics;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use storage::route_info::BrokerKey;
use storage::{Position, RouteInfo};

/// Digests per broker: with split registration a broker sends its table in several pieces.
const DIGESTS_PER_BROKER: usize = 4;
/// Brokers that the cache may hold beyond the number of brokers in the table before it drops the departed ones.
const DEPARTED_MAX: usize = 1024;

/// Per broker, the digests of the last few registrations that changed nothing, each with the group version at that
/// time: the same bytes at the same group version change nothing either. Only accepted registrations get into the
/// cache, so the number of brokers in the table bounds it.
#[derive(Debug, Default)]
pub(super) struct DigestCache(Mutex<HashMap<BrokerKey, Entry>>);

/// The entry of one broker.
#[derive(Debug, Default)]
struct Entry {
    digests: VecDeque<(u128, Position)>,
    /// The topics of its last registration, for one with other bytes.
    topics: Option<Arc<KnownTopics>>,
}

impl DigestCache {
    /// Whether a registration with this digest was found to change nothing at this group version.
    pub(super) fn contains(&self, broker: &BrokerKey, digest: u128, group_version: Position) -> bool {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(broker).is_some_and(|entry| entry.digests.contains(&(digest, group_version)))
    }

    /// The topics of the broker that the table is known to have.
    pub(super) fn known_topics(&self, broker: &BrokerKey) -> Option<Arc<KnownTopics>> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(broker)?.topics.clone()
    }

    /// Adds a registration that changes nothing at this group version.
    pub(super) fn insert(
        &self,
        table: &RouteInfo,
        broker: &BrokerKey,
        digest: u128,
        group_version: Position,
        topics: Option<KnownTopics>,
    ) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() > table.live_brokers().len() + DEPARTED_MAX {
            entries.retain(|broker, _| table.live(broker).is_some());
        }
        let Entry { digests, topics: last } = entries.entry(broker.clone()).or_default();
        digests.retain(|(old, _)| *old != digest);
        if digests.len() == DIGESTS_PER_BROKER {
            digests.pop_front();
        }
        digests.push_back((digest, group_version));
        if let Some(topics) = topics
            && last.as_ref().is_none_or(|last| last.version <= topics.version)
        {
            *last = Some(Arc::new(topics));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broker(n: usize) -> BrokerKey {
        BrokerKey { cluster: "c".into(), address: format!("10.0.0.{n}:10911").into() }
    }

    fn at(index: u64) -> Position {
        Position { index, number: 0 }
    }

    #[test]
    fn another_group_version_or_digest_is_not_contained() {
        let cache = DigestCache::default();
        cache.insert(&RouteInfo::default(), &broker(1), 7, at(3), None);
        assert!(cache.contains(&broker(1), 7, at(3)));
        assert!(!cache.contains(&broker(1), 7, at(4)));
        assert!(!cache.contains(&broker(1), 8, at(3)));
        assert!(!cache.contains(&broker(2), 7, at(3)));
    }

    #[test]
    fn the_last_few_are_kept_and_a_newer_version_replaces_its_own() {
        let cache = DigestCache::default();
        for digest in 0..6 {
            cache.insert(&RouteInfo::default(), &broker(1), digest, at(3), None);
        }
        let contained: Vec<bool> = (0..6).map(|digest| cache.contains(&broker(1), digest, at(3))).collect();
        assert_eq!(contained, [false, false, true, true, true, true]);
        cache.insert(&RouteInfo::default(), &broker(1), 2, at(9), None);
        assert!(!cache.contains(&broker(1), 2, at(3)));
        assert!(cache.contains(&broker(1), 3, at(3)), "nothing else was pushed out");
    }

    #[test]
    fn departed_brokers_are_forgotten() {
        let cache = DigestCache::default();
        for n in 0..DEPARTED_MAX * 3 {
            cache.insert(&RouteInfo::default(), &broker(n), 1, at(1), None);
        }
        assert!(cache.0.lock().unwrap().len() <= DEPARTED_MAX + 1);
    }
}
