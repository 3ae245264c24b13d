//! Warns of brokers whose topics come and go with each registration. With `deleteTopicWithBrokerRegistration` a
//! registration removes the topics that it lacks, as in Java; if a broker also sends its topics in several
//! registrations (`enableSplitRegistration`), each of these removes the topics of the others.

use crate::warn_limit::WarnLimit;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use storage::command::{Basis, Name, Registration};
use storage::route_info::BrokerKey;

/// Brokers that are remembered; beyond them all are forgotten.
const BROKERS_MAX: usize = 1024;
/// Removed topics that are remembered per broker.
const TOPICS_MAX: usize = 64;

/// The topics that the last registration of each broker removed.
#[derive(Debug, Default)]
pub(super) struct TopicFlapping {
    removed: Mutex<HashMap<BrokerKey, HashSet<Name>>>,
    warnings: WarnLimit,
}

impl TopicFlapping {
    /// Called before a difference is proposed while `deleteTopicWithBrokerRegistration` is on.
    pub(super) fn check(&self, broker: &BrokerKey, difference: &Registration) {
        let Basis::Difference { absent, .. } = &difference.basis else { return };
        let added = difference.topics.iter().map(|topic| &topic.topic);
        if let Some(topic) = self.restored(broker, added, absent)
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

    /// A topic that the broker's last registration removed and this one adds again.
    fn restored<'a>(
        &self,
        broker: &BrokerKey,
        mut added: impl Iterator<Item = &'a Name>,
        absent: &[Name],
    ) -> Option<Name> {
        let mut removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        let before = removed.remove(broker).unwrap_or_default();
        if !absent.is_empty() {
            if removed.len() >= BROKERS_MAX {
                removed.clear();
            }
            removed.insert(broker.clone(), absent.iter().take(TOPICS_MAX).cloned().collect());
        }
        added.find(|topic| before.contains(*topic)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<Name> {
        names.iter().map(|name| Name::from(*name)).collect()
    }

    #[test]
    fn only_topics_that_the_registration_before_removed_flap() {
        let (flapping, broker) =
            (TopicFlapping::default(), BrokerKey { cluster: "c".into(), address: "a".into() });
        let other = BrokerKey { cluster: "c".into(), address: "b".into() };
        let restored = |broker, adds: &[&str], removes: &[&str]| {
            flapping.restored(broker, names(adds).iter(), &names(removes))
        };
        assert_eq!(restored(&broker, &["t1"], &[]), None, "a new topic");
        assert_eq!(restored(&broker, &["t2"], &["t1"]), None, "a topic that goes");
        assert_eq!(restored(&other, &["t1"], &[]), None, "of another broker");
        assert_eq!(restored(&broker, &["t1"], &["t2"]).as_deref(), Some("t1"));
        assert_eq!(restored(&broker, &["t2"], &["t1"]).as_deref(), Some("t2"));
        assert_eq!(restored(&broker, &["t3"], &[]), None);
        assert_eq!(restored(&broker, &["t1"], &[]), None, "not the one before");
    }
}
