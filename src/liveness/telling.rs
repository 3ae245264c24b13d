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
    /// When the newest word that was told was heard.
    told: Running,
    waits: bool,
}

/// How long a word of a broker with this timeout waits behind another.
fn every(timeout: Duration) -> Duration {
    (timeout / 4).min(WAITS_MAX)
}

impl Pace {
    /// A word goes with the next report.
    pub(super) fn told(&mut self, heard: Running) {
        self.told = self.told.max(heard);
    }

    /// Whether a word must wait.
    pub(super) fn must_wait(&self, now: Running, timeout: Duration) -> bool {
        now < self.told + every(timeout)
    }

    /// Whether a word waits.
    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    /// The word that waits is told now. Gives whether there is one.
    pub(super) fn tell(&mut self, heard: Running) -> bool {
        let waited = std::mem::take(&mut self.waits);
        if waited {
            self.told(heard);
        }
        waited
    }
}

/// Brokers whose words wait, by when they fall due.
#[derive(Debug, Default)]
pub(super) struct Waiting(BTreeMap<Running, Vec<BrokerKey>>);

impl Waiting {
    /// A word waits, if none does already.
    pub(super) fn push(&mut self, broker: &BrokerKey, pace: &mut Pace, timeout: Duration) {
        if !std::mem::replace(&mut pace.waits, true) {
            let slots = (pace.told + every(timeout)).as_millis().div_ceil(SLOT.as_millis());
            let due = SLOT * u32::try_from(slots).unwrap_or(u32::MAX);
            self.0.entry(due).or_default().push(broker.clone());
        }
    }

    /// The brokers whose words are due.
    pub(super) fn due(&mut self, now: Running) -> Vec<BrokerKey> {
        let mut due = Vec::new();
        while let Some(slot) = self.0.first_entry().filter(|slot| *slot.key() <= now) {
            due.extend(slot.remove());
        }
        due
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
        const TIMEOUT: Duration = Duration::from_secs(120);
        let (mut pace, mut waiting) = (Pace::default(), Waiting::default());
        pace.told(ms(1_000));
        assert!(pace.must_wait(ms(3_499), TIMEOUT) && !pace.must_wait(ms(3_500), TIMEOUT));
        assert!(!pace.must_wait(ms(2_000), ms(3_000)), "its timeout has become shorter");
        waiting.push(&key(1), &mut pace, TIMEOUT);
        waiting.push(&key(1), &mut pace, TIMEOUT);
        assert!(waiting.due(ms(3_599)).is_empty());
        assert_eq!(waiting.due(ms(3_600)), [key(1)], "once");
        assert!(pace.tell(ms(3_000)) && !pace.waits() && pace.must_wait(ms(5_499), TIMEOUT));
        assert!(!pace.tell(ms(7_000)) && !pace.must_wait(ms(5_500), TIMEOUT), "nothing waited");
    }

    /// Whenever words come, the newest that is told is never older than the timeout while there is one that is not.
    #[test]
    fn a_word_that_waits_is_known_within_the_timeout() {
        for timeout in [1_000, 2_000, 4_000, 10_000, 120_000].map(ms) {
            for gap in (50..timeout.as_millis().min(15_000) as u64 * 9 / 10).step_by(50) {
                let (mut pace, mut waiting, mut heard, mut known) =
                    (Pace::default(), Waiting::default(), ms(60_000), ms(60_000));
                pace.told(heard);
                for now in (60_050..90_000).step_by(50).map(ms) {
                    if now >= heard + ms(gap) {
                        heard = now;
                        if pace.must_wait(now, timeout) {
                            waiting.push(&key(1), &mut pace, timeout);
                        } else {
                            pace.told(now);
                            known = now;
                        }
                    }
                    if !waiting.due(now).is_empty() && pace.tell(heard) {
                        known = heard;
                    }
                    assert!(
                        heard == known || now + ms(400) < known + timeout,
                        "{timeout:?}, {gap} ms: {known:?}, {now:?}"
                    );
                    assert!(
                        heard == known || now < known + UNTOLD_MAX,
                        "{timeout:?}, {gap} ms: {known:?}, {now:?}"
                    );
                }
            }
        }
    }
}
