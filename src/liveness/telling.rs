//! When the words of a broker are told to the other nodes.
//!
//! A broker says every second that it lives, at each node. The others need not know each time: told a few times within its
//! timeout, with the moment at which it was heard, they count its silence just the same. To ensure correctness, a word
//! that waits is told long before a timeout that began with the word before it has passed.

use super::clock::Running;
use std::collections::BTreeMap;
use std::time::Duration;
use storage::route_info::BrokerKey;

/// The longest that a word waits, but for what [`SLOT`] and the next report add.
const WAITS_MAX: Duration = Duration::from_millis(2_500);
/// Words that fall due within it go together.
const SLOT: Duration = Duration::from_millis(200);
/// How long before its last report a node may have heard what it had not yet told.
pub(super) const UNTOLD_MAX: Duration = Duration::from_millis(3_000);

/// How a broker's words go out from the node that hears them.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// From then on a word goes at once.
    again: Running,
    every: Duration,
    waits: bool,
}

impl Pace {
    /// A word of a broker with this timeout, which goes with the next report. Others within the quarter of it wait.
    pub(super) fn told(&mut self, now: Running, timeout: Duration) {
        self.every = (timeout / 4).min(WAITS_MAX);
        self.again = now + self.every;
    }

    /// Whether a word must wait.
    pub(super) fn must_wait(&self, now: Running) -> bool {
        now < self.again
    }

    /// Whether a word waits.
    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    /// The waiting word is told. Gives whether there was one.
    pub(super) fn tell(&mut self, now: Running) -> bool {
        self.again = now + self.every;
        std::mem::take(&mut self.waits)
    }
}

/// Brokers whose words wait, by when they fall due.
#[derive(Debug, Default)]
pub(super) struct Waiting(BTreeMap<Running, Vec<BrokerKey>>);

impl Waiting {
    /// A word waits, if none does already.
    pub(super) fn push(&mut self, broker: &BrokerKey, pace: &mut Pace) {
        if !std::mem::replace(&mut pace.waits, true) {
            let slots = pace.again.as_millis().div_ceil(SLOT.as_millis());
            let due = SLOT * u32::try_from(slots).unwrap_or(u32::MAX);
            self.0.entry(due).or_default().push(broker.clone());
        }
    }

    /// The brokers whose words are due.
    pub(super) fn due(&mut self, now: Running) -> Vec<BrokerKey> {
        let later = self.0.split_off(&(now + Duration::from_nanos(1)));
        std::mem::replace(&mut self.0, later).into_values().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::by_broker::key;
    use super::*;

    const fn ms(n: u64) -> Running {
        Duration::from_millis(n)
    }

    #[test]
    fn a_word_goes_at_once_and_those_behind_it_together() {
        let (mut pace, mut waiting) = (Pace::default(), Waiting::default());
        assert!(!pace.must_wait(ms(1_000)));
        pace.told(ms(1_000), Duration::from_secs(120));
        assert!(pace.must_wait(ms(3_499)) && !pace.must_wait(ms(3_500)));
        waiting.push(&key(1), &mut pace);
        waiting.push(&key(1), &mut pace);
        assert!(waiting.due(ms(3_599)).is_empty());
        assert_eq!(waiting.due(ms(3_600)), [key(1)], "once");
        assert!(pace.tell(ms(3_600)) && !pace.waits() && pace.must_wait(ms(6_099)));
        assert!(!pace.tell(ms(7_000)), "nothing waited");
    }

    /// What began the timeout was told when it was heard or this much later; what waits behind it must be known in time.
    #[test]
    fn a_word_that_waits_is_known_within_the_timeout() {
        for timeout in [1_000, 4_000, 10_000, 120_000].map(ms) {
            let (mut pace, mut waiting) = (Pace::default(), Waiting::default());
            pace.told(ms(7), timeout);
            waiting.push(&key(1), &mut pace);
            let due = (0..).map(|n| ms(50 * n)).find(|now| !waiting.due(*now).is_empty()).unwrap();
            assert!(due + ms(200) < ms(7) + timeout * 3 / 4, "{timeout:?}: {due:?}");
            assert!(due < ms(7) + UNTOLD_MAX, "{timeout:?}: {due:?}");
        }
    }
}
