//! Removals that this leader has proposed and not yet seen applied.

use raft::ProposeError;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use storage::Position;
use storage::route_info::BrokerKey;

/// After a refused proposal, before the next.
pub(super) const PROPOSE_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// After an unknown outcome, before the leader takes it that nothing more of it can enter the log.
pub(super) const DOUBT_FOR: Duration = Duration::from_secs(1);

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
    /// It may yet be.
    Unknown,
}

impl From<ProposeError> for ProposalEnd {
    fn from(error: ProposeError) -> Self {
        match error {
            ProposeError::Refused(_) => Self::Refused,
            ProposeError::Unknown(_) => Self::Unknown,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Proposed,
    /// Outcome unknown since then.
    Doubtful(Duration),
    /// Settled once this index is applied: an entry of it, if any, is not behind that.
    SettledBy(u64),
}

/// Batches that the leader of one term has proposed. What was proposed in an earlier term is settled: a leader decides only
/// after it has applied an entry of its own term, which stands behind all of that.
#[derive(Debug, Default)]
pub(super) struct Removals {
    last: u64,
    batches: BTreeMap<u64, State>,
    brokers: BTreeMap<BrokerKey, (u64, Position)>,
    /// Running time before which nothing is proposed.
    not_before: Duration,
}

impl Removals {
    /// Whether the removal of this registration is proposed and not settled.
    pub(super) fn contains(&self, broker: &BrokerKey, incarnation: Position) -> bool {
        self.brokers.get(broker).is_some_and(|(_, removed)| *removed == incarnation)
    }

    /// The brokers whose removals are proposed.
    pub(super) fn brokers(&self) -> impl ExactSizeIterator<Item = &BrokerKey> {
        self.brokers.keys()
    }

    /// Whether a proposal may be made now: one at a time, so that what is decided meanwhile goes together.
    pub(super) fn may_propose(&self, now: Duration) -> bool {
        now >= self.not_before && !self.batches.values().any(|state| *state == State::Proposed)
    }

    /// A batch is proposed. Gives its number.
    pub(super) fn propose(&mut self, brokers: impl Iterator<Item = (BrokerKey, Position)>) -> u64 {
        self.last += 1;
        self.batches.insert(self.last, State::Proposed);
        self.brokers.extend(brokers.map(|(broker, incarnation)| (broker, (self.last, incarnation))));
        self.last
    }

    /// A proposal ended. If it was refused, its brokers may be decided on again.
    pub(super) fn ended(&mut self, now: Duration, batch: u64, end: ProposalEnd) {
        let Some(state) = self.batches.get_mut(&batch) else { return };
        match end {
            ProposalEnd::Unknown => *state = State::Doubtful(now),
            // Its brokers count as proposed until the leases have followed the table: the guard must miss none of them.
            ProposalEnd::Applied(index) => *state = State::SettledBy(index),
            ProposalEnd::Refused => {
                self.not_before = now + PROPOSE_AGAIN_AFTER;
                self.batches.remove(&batch);
                self.brokers.retain(|_, (of, _)| *of != batch);
            }
        }
    }

    /// Whether a doubtful batch waits to learn the end of the log.
    pub(super) fn wants_last_index(&self, now: Duration) -> bool {
        let doubtful = |state: &State| matches!(state, State::Doubtful(since) if now >= *since + DOUBT_FOR);
        self.batches.values().any(doubtful)
    }

    /// The last index of this leader's log.
    pub(super) fn last_index(&mut self, now: Duration, index: u64) {
        for state in self.batches.values_mut() {
            if matches!(state, State::Doubtful(since) if now >= *since + DOUBT_FOR) {
                *state = State::SettledBy(index);
            }
        }
    }

    /// The leases have followed the table up to this index: settles batches that can no longer be applied, or were.
    pub(super) fn applied(&mut self, index: u64) {
        self.batches.retain(|_, state| !matches!(state, State::SettledBy(by) if *by <= index));
        let Self { batches, brokers, .. } = self;
        brokers.retain(|_, (batch, _)| batches.contains_key(batch));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Position = Position { index: 5, number: 0 };

    fn key() -> BrokerKey {
        BrokerKey { cluster: "c".into(), address: "a".into() }
    }

    fn removals() -> (Removals, u64) {
        let mut removals = Removals::default();
        let batch = removals.propose([(key(), AT)].into_iter());
        (removals, batch)
    }

    #[test]
    fn a_refused_proposal_is_made_again_after_a_moment() {
        let (mut removals, batch) = removals();
        assert!(removals.contains(&key(), AT));
        assert!(!removals.contains(&key(), Position { index: 6, number: 0 }), "a successor is not");
        assert!(!removals.may_propose(Duration::ZERO));
        let refused = ProposeError::Refused("no leader".into());
        removals.ended(Duration::ZERO, batch, refused.into());
        assert!(!removals.contains(&key(), AT));
        assert!(!removals.may_propose(Duration::ZERO));
        assert!(removals.may_propose(PROPOSE_AGAIN_AFTER));
    }

    #[test]
    fn an_applied_batch_counts_as_proposed_until_the_leases_have_followed() {
        let (mut removals, batch) = removals();
        removals.ended(Duration::ZERO, batch, ProposalEnd::Applied(9));
        removals.applied(8);
        assert!(removals.contains(&key(), AT) && removals.may_propose(Duration::ZERO));
        removals.applied(9);
        assert_eq!(removals.brokers().len(), 0);
    }

    #[test]
    fn an_unknown_outcome_stays_under_way_until_the_log_settles_it() {
        let (mut removals, batch) = removals();
        removals.ended(Duration::ZERO, batch, ProposeError::Unknown("not committed in time".into()).into());
        assert!(removals.contains(&key(), AT));
        assert!(removals.may_propose(Duration::ZERO), "others need not wait");
        assert!(!removals.wants_last_index(Duration::ZERO));
        assert!(removals.wants_last_index(DOUBT_FOR));
        removals.last_index(DOUBT_FOR, 9);
        removals.applied(8);
        assert!(removals.contains(&key(), AT));
        removals.applied(9);
        assert!(!removals.contains(&key(), AT));
        assert_eq!(removals.brokers().len(), 0);
    }
}
