//! Removals that this leader has proposed and not yet seen applied.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use storage::Position;
use storage::route_info::BrokerKey;

/// After a refused proposal, before the next.
pub(super) const PROPOSE_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// What an entry meant for liveness.
#[derive(Debug, Clone, Default)]
pub(super) struct Applied {
    /// Brokers whose registration may have changed.
    pub(super) touched: BTreeSet<BrokerKey>,
    /// Brokers removed by expiry.
    pub(super) expired: Vec<BrokerKey>,
    /// Brokers removed by disconnect.
    pub(super) disconnected: Vec<BrokerKey>,
    /// Whether the guard is active from now on, when that changed.
    pub(super) guard: Option<bool>,
}

/// What a proposal came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProposalEnd {
    /// Applied by this index at the latest.
    Applied(u64),
    /// Certainly not carried out.
    Refused,
    /// If it is ever applied, then by this index.
    Unknown(u64),
}

/// Removals that the leader of one term has proposed. What was proposed in an earlier term is settled: a leader decides
/// only after it has applied an entry of its own term, which stands behind all of that.
#[derive(Debug, Default)]
pub(super) struct Removals {
    in_flight: bool,
    /// Each broker with the registration to remove, and the index by which that is settled once it is known.
    brokers: BTreeMap<BrokerKey, (Position, Option<u64>)>,
    /// Running time before which nothing is proposed.
    not_before: Duration,
}

impl Removals {
    /// Whether the removal of this registration is proposed and not settled.
    pub(super) fn contains(&self, broker: &BrokerKey, incarnation: Position) -> bool {
        self.brokers.get(broker).is_some_and(|(removed, _)| *removed == incarnation)
    }

    /// The brokers whose removals are proposed.
    pub(super) fn brokers(&self) -> impl ExactSizeIterator<Item = &BrokerKey> {
        self.brokers.keys()
    }

    /// Whether a proposal may be made now: one at a time, so that what is decided meanwhile goes together.
    pub(super) fn may_propose(&self, now: Duration) -> bool {
        now >= self.not_before && !self.in_flight
    }

    /// These removals are proposed in one entry.
    pub(super) fn propose(&mut self, brokers: impl Iterator<Item = (BrokerKey, Position)>) {
        self.in_flight = true;
        self.brokers.extend(brokers.map(|(broker, incarnation)| (broker, (incarnation, None))));
    }

    /// The proposal ended. If it was refused, its brokers may be decided on again. Otherwise they count as proposed until
    /// the leases have followed the table so far: the guard must miss none of them.
    pub(super) fn ended(&mut self, now: Duration, end: ProposalEnd) {
        self.in_flight = false;
        match end {
            ProposalEnd::Applied(index) | ProposalEnd::Unknown(index) => {
                self.brokers
                    .values_mut()
                    .for_each(|(_, settled_by)| *settled_by = settled_by.or(Some(index)));
            }
            ProposalEnd::Refused => {
                self.not_before = now + PROPOSE_AGAIN_AFTER;
                self.brokers.retain(|_, (_, settled_by)| settled_by.is_some());
            }
        }
    }

    /// The leases have followed the table up to this index: what can no longer be applied is settled.
    pub(super) fn applied(&mut self, index: u64) {
        self.brokers.retain(|_, (_, settled_by)| settled_by.is_none_or(|by| by > index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Position = Position { index: 5, number: 0 };

    fn key() -> BrokerKey {
        BrokerKey { cluster: "c".into(), address: "a".into() }
    }

    fn removals() -> Removals {
        let mut removals = Removals::default();
        removals.propose([(key(), AT)].into_iter());
        removals
    }

    #[test]
    fn a_refused_proposal_is_made_again_after_a_moment() {
        let mut removals = removals();
        assert!(removals.contains(&key(), AT));
        assert!(!removals.contains(&key(), Position { index: 6, number: 0 }), "a successor is not");
        assert!(!removals.may_propose(Duration::ZERO));
        removals.ended(Duration::ZERO, ProposalEnd::Refused);
        assert!(!removals.contains(&key(), AT));
        assert!(!removals.may_propose(Duration::ZERO));
        assert!(removals.may_propose(PROPOSE_AGAIN_AFTER));
    }

    #[test]
    fn what_is_applied_or_unknown_counts_as_proposed_until_the_leases_have_followed() {
        for end in [ProposalEnd::Applied(9), ProposalEnd::Unknown(9)] {
            let mut removals = removals();
            removals.applied(20);
            assert!(removals.contains(&key(), AT), "not settled by an index of before its end");
            removals.ended(Duration::ZERO, end);
            removals.applied(8);
            assert!(removals.contains(&key(), AT) && removals.may_propose(Duration::ZERO));
            removals.propose([(BrokerKey { cluster: "c".into(), address: "b".into() }, AT)].into_iter());
            removals.ended(Duration::ZERO, ProposalEnd::Refused);
            assert!(removals.contains(&key(), AT), "the refused one was another");
            removals.applied(9);
            assert_eq!(removals.brokers().len(), 0);
        }
    }
}
