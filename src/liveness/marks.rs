//! Brokers whose last strong session was ended by the peer.

use super::clock::Running;
use std::collections::BTreeMap;
use storage::Position;
use storage::route_info::BrokerKey;

/// A broker that goes as soon as no session of it is left anywhere reachable.
///
/// It stays until the removal is applied, a strong session appears, or one of its sessions ends otherwise than by the
/// peer.
/// Each voter keeps it, so that a new leader decides again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    /// The registration that the session stood for: a newer one is not removed.
    pub(super) incarnation: Position,
    /// The question that the decision waits for.
    pub(super) round: Option<Round>,
}

/// A question to all reachable nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) number: u64,
    pub(super) begun: Running,
    pub(super) sent: Running,
}

/// All marks of a voter.
#[derive(Debug, Default)]
pub(super) struct Marks {
    marks: BTreeMap<BrokerKey, Mark>,
}

impl Marks {
    /// Marks a broker, or notes that something ended since: answers must be younger than that.
    pub(super) fn set(&mut self, broker: BrokerKey, incarnation: Position) {
        let mark = self.marks.entry(broker).or_insert(Mark { incarnation, round: None });
        mark.incarnation = mark.incarnation.max(incarnation);
        mark.round = None;
    }

    /// A session ended by the peer: if the broker is marked, its question must be asked again.
    pub(super) fn ask_again(&mut self, broker: &BrokerKey) {
        if let Some(mark) = self.marks.get_mut(broker) {
            mark.round = None;
        }
    }

    pub(super) fn clear(&mut self, broker: &BrokerKey) {
        self.marks.remove(broker);
    }

    pub(super) fn has(&self, broker: &BrokerKey) -> bool {
        self.marks.contains_key(broker)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// A new leader asks anew.
    pub(super) fn forget_rounds(&mut self) {
        self.marks.values_mut().for_each(|mark| mark.round = None);
    }

    /// Keeps the marks that `keep` wants.
    pub(super) fn retain(&mut self, keep: impl FnMut(&BrokerKey, &mut Mark) -> bool) {
        self.marks.retain(keep);
    }
}
