//! Registrations that were found to change nothing, remembered by the hash of their bytes.

use super::reading::Told;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use storage::route_info::BrokerKey;
use storage::{Position, RouteInfo};

/// Remembered per broker: with split registration a broker sends its table in several pieces.
const PER_BROKER: usize = 4;
/// Brokers that may be remembered beyond those in the table before the departed are forgotten.
const DEPARTED_MAX: usize = 1024;

/// Per broker, the last few registrations that changed nothing, each with the group version of then: the same
/// bytes at the same group version change nothing either. Only accepted registrations are told to it, so it is
/// bounded by the brokers in the table.
#[derive(Debug, Default)]
pub(crate) struct Fingerprints(Mutex<HashMap<BrokerKey, Known>>);

/// What is remembered of one broker.
#[derive(Debug, Default)]
struct Known {
    prints: VecDeque<(u128, Position)>,
    /// Its last topic table in blocks, for when it comes with other bytes.
    told: Option<Arc<Told>>,
}

impl Fingerprints {
    /// Whether these bytes were found to change nothing at this group version.
    pub(crate) fn holds(&self, broker: &BrokerKey, print: u128, group_version: Position) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(broker).is_some_and(|known| known.prints.contains(&(print, group_version)))
    }

    /// The last topic table of a broker that was found to change nothing.
    pub(crate) fn told(&self, broker: &BrokerKey) -> Option<Arc<Told>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(broker)?.told.clone()
    }

    /// These bytes change nothing at this group version.
    pub(crate) fn remember(
        &self,
        table: &RouteInfo,
        broker: &BrokerKey,
        print: u128,
        group_version: Position,
        told: Option<Told>,
    ) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > table.live_brokers().len() + DEPARTED_MAX {
            known.retain(|broker, _| table.live(broker).is_some());
        }
        let Known { prints, told: last } = known.entry(broker.clone()).or_default();
        prints.retain(|(old, _)| *old != print);
        if prints.len() == PER_BROKER {
            prints.pop_front();
        }
        prints.push_back((print, group_version));
        if let Some(told) = told
            && last.as_ref().is_none_or(|last| last.version <= told.version)
        {
            *last = Some(Arc::new(told));
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
    fn another_group_version_or_other_bytes_are_not_held() {
        let prints = Fingerprints::default();
        prints.remember(&RouteInfo::default(), &broker(1), 7, at(3), None);
        assert!(prints.holds(&broker(1), 7, at(3)));
        assert!(!prints.holds(&broker(1), 7, at(4)));
        assert!(!prints.holds(&broker(1), 8, at(3)));
        assert!(!prints.holds(&broker(2), 7, at(3)));
    }

    #[test]
    fn the_last_few_are_kept_and_a_newer_version_replaces_its_own() {
        let prints = Fingerprints::default();
        for print in 0..6 {
            prints.remember(&RouteInfo::default(), &broker(1), print, at(3), None);
        }
        let held: Vec<bool> = (0..6).map(|print| prints.holds(&broker(1), print, at(3))).collect();
        assert_eq!(held, [false, false, true, true, true, true]);
        prints.remember(&RouteInfo::default(), &broker(1), 2, at(9), None);
        assert!(!prints.holds(&broker(1), 2, at(3)));
        assert!(prints.holds(&broker(1), 3, at(3)), "nothing else was pushed out");
    }

    #[test]
    fn departed_brokers_are_forgotten() {
        let prints = Fingerprints::default();
        for n in 0..DEPARTED_MAX * 3 {
            prints.remember(&RouteInfo::default(), &broker(n), 1, at(1), None);
        }
        assert!(prints.0.lock().unwrap().len() <= DEPARTED_MAX + 1);
    }
}
