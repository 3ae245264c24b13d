//! Brokers whose topics come and go with each registration. With `deleteTopicWithBrokerRegistration` a registration
//! removes what it does not name, as in Java; a broker that tells its topics in several (`enableSplitRegistration`) then
//! takes away with each what the others brought.

use crate::warn_limit::WarnLimit;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use storage::command::{Basis, Name, Registration};
use storage::route_info::BrokerKey;

/// Brokers that are remembered; beyond them all are forgotten.
const BROKERS_MAX: usize = 1024;
/// Removed topics that are remembered of each.
const TOPICS_MAX: usize = 64;

/// What the last registration of each broker removed.
#[derive(Debug, Default)]
pub(super) struct Flapping {
    removed: Mutex<HashMap<BrokerKey, HashSet<Name>>>,
    warnings: WarnLimit,
}

impl Flapping {
    /// A difference is proposed while topics that a registration lacks are removed.
    pub(super) fn look(&self, broker: &BrokerKey, difference: &Registration) {
        if let Some(topic) = self.brings_back(broker, difference)
            && let Some(held_back) = self.warnings.allow()
        {
            tracing::warn!(
                broker = %difference.broker,
                address = %broker.address,
                %topic,
                held_back,
                "a broker's registrations remove and bring back the same topics: with \
                 deleteTopicWithBrokerRegistration=true a broker must not have enableSplitRegistration=true"
            );
        }
    }

    /// A topic that the broker's last registration removed, and this one brings back.
    fn brings_back(&self, broker: &BrokerKey, difference: &Registration) -> Option<Name> {
        let Basis::Difference { absent, .. } = &difference.basis else { return None };
        let mut removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        let before = removed.remove(broker).unwrap_or_default();
        if !absent.is_empty() {
            if removed.len() >= BROKERS_MAX {
                removed.clear();
            }
            removed.insert(broker.clone(), absent.iter().take(TOPICS_MAX).cloned().collect());
        }
        difference.topics.iter().map(|topic| &topic.topic).find(|topic| before.contains(*topic)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::Position;
    use storage::command::{DataVersion, QueueConfig, TopicConfig};

    fn difference(adds: &[&str], removes: &[&str]) -> Registration {
        let queues = QueueConfig { read: 8, write: 8, perm: 6, sys_flag: 0 };
        Registration {
            topics: adds.iter().map(|topic| TopicConfig { topic: (*topic).into(), queues }).collect(),
            basis: Basis::Difference {
                group_version: Position { index: 1, number: 0 },
                topic_count: 1,
                absent: removes.iter().map(|topic| (*topic).into()).collect(),
            },
            cluster: "c".into(),
            broker: "b".into(),
            id: 0,
            address: "a".into(),
            ha_address: None,
            zone: None,
            acting_master: None,
            heartbeat_timeout_ms: None,
            data_version: DataVersion::default(),
            filter_servers: None,
            static_infos: Vec::new(),
        }
    }

    #[test]
    fn only_topics_that_the_registration_before_removed_flap() {
        let (flapping, broker) =
            (Flapping::default(), BrokerKey { cluster: "c".into(), address: "a".into() });
        let other = BrokerKey { cluster: "c".into(), address: "b".into() };
        let look = |broker, adds: &[&str], removes: &[&str]| {
            flapping.brings_back(broker, &difference(adds, removes))
        };
        assert_eq!(look(&broker, &["t1"], &[]), None, "a new topic");
        assert_eq!(look(&broker, &["t2"], &["t1"]), None, "a topic that goes");
        assert_eq!(look(&other, &["t1"], &[]), None, "of another broker");
        assert_eq!(look(&broker, &["t1"], &["t2"]).as_deref(), Some("t1"));
        assert_eq!(look(&broker, &["t2"], &["t1"]).as_deref(), Some("t2"));
        assert_eq!(look(&broker, &["t3"], &[]), None);
        assert_eq!(look(&broker, &["t1"], &[]), None, "not the one before");
    }
}
