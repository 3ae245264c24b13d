//! When each broker of the table was last heard, and when its silence becomes too long.

use super::by_broker::{BrokerMap, Keyed};
use super::clock::Running;
use std::collections::BTreeSet;
use std::time::Duration;
use storage::Position;
use storage::command::Name;
use storage::route_info::{BrokerKey, BrokerLiveInfo};

/// No timeout counts as shorter: silences are known no finer than reports come.
pub(super) const TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// No timeout counts as longer.
const TIMEOUT_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A word that a broker sent before it was lost may come so much later: packets are sent again after 0.2, 0.4 and 0.8 s,
/// and a report that tells when another node heard it is on its way for a second at most.
const LATE_WORDS: Duration = Duration::from_secs(3);

/// A broker of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) broker: Name,
    pub(super) timeout: Duration,
    pub(super) incarnation: Position,
    /// Incarnation of the newest strong session that the peer ended, anywhere.
    pub(super) ended: Option<Position>,
    /// When it last spoke over a connection that is not followed, anywhere.
    unfollowed: Option<Running>,
    /// When it was last heard, moved on by the time of which nobody can tell whether it was.
    heard: Running,
    /// When it last lived for certain: its registration was made, or it was heard [`LATE_WORDS`] later. `None`: not since
    /// this process began.
    spoke: Option<Running>,
    /// Its place in the index: not later than the moment it expires, unless it was put off.
    look_at: Running,
}

impl Entry {
    /// Its clock starts anew. Gives whether it could then expire before its place in the index comes.
    fn starts_anew(&mut self, at: Running) -> bool {
        self.heard = self.heard.max(at);
        self.look_at > self.heard + self.timeout
    }

    /// Leaves the time between out of its silence.
    fn excuse(&mut self, since: Running, until: Running) {
        self.heard += until.saturating_sub(since.max(self.heard));
    }
}

/// The ledger of last-heard.
///
/// The index holds each broker once, at a moment not later than its deadline. Hearing a broker does not touch the
/// index; the deadline is worked out when that moment has come.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    brokers: BrokerMap<Entry>,
    index: BTreeSet<(Running, BrokerKey)>,
}

impl Ledger {
    /// An empty one.
    pub(super) fn new(keyed: Keyed) -> Self {
        Self { brokers: BrokerMap::with_hasher(keyed), ..Self::default() }
    }

    /// Follows the table: the registration of a broker, or that there is none. The clock of one that is new or changed
    /// starts anew; `fresh`: it has just been made.
    pub(super) fn follow(
        &mut self,
        now: Running,
        key: &BrokerKey,
        live: Option<&BrokerLiveInfo>,
        fresh: bool,
    ) {
        let Some(live) = live else {
            if let Some(entry) = self.brokers.remove(key) {
                self.index.remove(&(entry.look_at, key.clone()));
            }
            return;
        };
        let timeout = Duration::from_millis(live.timeout_ms).clamp(TIMEOUT_MIN, TIMEOUT_MAX);
        let entry = self.brokers.entry(key.clone()).or_insert_with(|| Entry {
            broker: live.broker.clone(),
            timeout,
            incarnation: live.incarnation,
            ended: None,
            unfollowed: None,
            heard: now,
            spoke: fresh.then_some(now),
            look_at: Running::MAX,
        });
        if entry.incarnation != live.incarnation {
            entry.heard = entry.heard.max(now);
            entry.spoke = entry.spoke.max(fresh.then_some(now));
        }
        (entry.broker, entry.timeout, entry.incarnation) = (live.broker.clone(), timeout, live.incarnation);
        self.pull_in(key);
    }

    /// A broker was heard. Gives its timeout.
    pub(super) fn heard(&mut self, key: &BrokerKey, at: Running) -> Option<Duration> {
        let entry = self.brokers.get_mut(key)?;
        let timeout = entry.timeout;
        entry.spoke = entry.spoke.max(Some(at.saturating_sub(LATE_WORDS)));
        if entry.starts_anew(at) {
            self.pull_in(key);
        }
        Some(timeout)
    }

    /// A broker speaks over a connection that is not followed.
    pub(super) fn not_followed(&mut self, key: &BrokerKey, now: Running) {
        if let Some(entry) = self.brokers.get_mut(key) {
            entry.unfollowed = Some(now);
        }
    }

    /// Whether a broker may have a connection of which nobody tells when it ends.
    pub(super) fn may_be_unfollowed(&self, key: &BrokerKey, now: Running) -> bool {
        let entry = self.brokers.get(key);
        entry.is_some_and(|entry| entry.unfollowed.is_some_and(|at| now < at + entry.timeout))
    }

    /// The clock of a broker starts anew, since it may have been heard without this node's knowing.
    pub(super) fn start_anew_for(&mut self, key: &BrokerKey, at: Running) {
        if self.brokers.get_mut(key).is_some_and(|entry| entry.starts_anew(at)) {
            self.pull_in(key);
        }
    }

    /// From that moment until now is no silence of the broker: it may have been heard without this node's knowing.
    pub(super) fn excuse(&mut self, key: &BrokerKey, since: Running, now: Running) {
        if let Some(entry) = self.brokers.get_mut(key) {
            entry.excuse(since, now);
        }
    }

    /// The same for all brokers.
    pub(super) fn excuse_all(&mut self, since: Running, now: Running) {
        self.brokers.values_mut().for_each(|entry| entry.excuse(since, now));
    }

    /// Takes over from other nodes when a broker was last heard, instead of this process's beginning.
    pub(super) fn inherit(&mut self, key: &BrokerKey, heard: Running, now: Running) {
        let Some(entry) = self.brokers.get_mut(key) else { return };
        // What this process heard by itself stands.
        let here = entry.spoke.map_or(Running::ZERO, |spoke| (spoke + LATE_WORDS).min(now));
        entry.heard = entry.heard.min(heard.max(here));
        self.pull_in(key);
    }

    /// Moves a broker's place in the index forward when it could otherwise expire unseen.
    pub(super) fn pull_in(&mut self, key: &BrokerKey) {
        let Some(entry) = self.brokers.get_mut(key) else { return };
        let due = entry.heard + entry.timeout;
        if entry.look_at > due {
            self.index.remove(&(entry.look_at, key.clone()));
            entry.look_at = due;
            self.index.insert((due, key.clone()));
        }
    }

    /// Looks at a broker again no earlier than `until`, unless it is heard.
    pub(super) fn postpone(&mut self, key: &BrokerKey, until: Running) {
        let Some(entry) = self.brokers.get_mut(key) else { return };
        self.index.remove(&(entry.look_at, key.clone()));
        entry.look_at = until;
        self.index.insert((until, key.clone()));
    }

    /// The brokers that have been silent for too long.
    pub(super) fn expired(&mut self, now: Running) -> Vec<BrokerKey> {
        let mut expired = Vec::new();
        let mut later = Vec::new();
        for (look_at, key) in &self.index {
            if *look_at > now {
                break;
            }
            match self.due(key) {
                Some(due) if due > now => later.push((key.clone(), due)),
                _ => expired.push(key.clone()),
            }
        }
        later.into_iter().for_each(|(key, due)| self.postpone(&key, due));
        expired
    }

    /// When a broker expires.
    pub(super) fn due(&self, key: &BrokerKey) -> Option<Running> {
        self.brokers.get(key).map(|entry| entry.heard + entry.timeout)
    }

    /// When a broker was last heard, moved on by the time of which nobody can tell.
    pub(super) fn last_heard(&self, key: &BrokerKey) -> Option<Running> {
        self.brokers.get(key).map(|entry| entry.heard)
    }

    /// When a broker last lived for certain; long ago when it was not heard since this process began.
    pub(super) fn spoke(&self, key: &BrokerKey) -> Option<Running> {
        self.brokers.get(key).map(|entry| entry.spoke.unwrap_or(Running::ZERO))
    }

    pub(super) fn get(&self, key: &BrokerKey) -> Option<&Entry> {
        self.brokers.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &BrokerKey) -> Option<&mut Entry> {
        self.brokers.get_mut(key)
    }

    /// The brokers, in no order.
    pub(super) fn keys(&self) -> impl ExactSizeIterator<Item = &BrokerKey> {
        self.brokers.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::super::by_broker::key;
    use super::*;
    use storage::command::DataVersion;

    const fn secs(n: u64) -> Running {
        Duration::from_secs(n)
    }

    fn live(timeout_ms: u64, index: u64) -> BrokerLiveInfo {
        BrokerLiveInfo {
            broker: "b".into(),
            id: 0,
            data_version: DataVersion::default(),
            timeout_ms,
            ha_address: None,
            incarnation: Position { index, number: 0 },
        }
    }

    #[test]
    fn silence_longer_than_its_own_timeout() {
        let mut ledger = Ledger::default();
        ledger.follow(secs(0), &key(1), Some(&live(10_000, 1)), true);
        ledger.follow(secs(0), &key(2), Some(&live(120_000, 1)), true);
        assert!(ledger.expired(secs(9)).is_empty());
        ledger.heard(&key(1), secs(9));
        assert!(ledger.expired(secs(10)).is_empty());
        assert_eq!(ledger.expired(secs(19)), [key(1)]);
        assert_eq!(ledger.expired(secs(20)), [key(1)], "from state, not once");
        assert_eq!(ledger.expired(secs(120)), [key(1), key(2)]);
        ledger.follow(secs(120), &key(1), None, true);
        assert_eq!(ledger.expired(secs(120)), [key(2)]);
        assert_eq!(ledger.index.len(), ledger.brokers.len());
    }

    #[test]
    fn a_shorter_timeout_holds_at_once() {
        let mut ledger = Ledger::default();
        ledger.follow(secs(0), &key(1), Some(&live(120_000, 1)), true);
        ledger.follow(secs(5), &key(1), Some(&live(10_000, 2)), true);
        assert_eq!(ledger.due(&key(1)), Some(secs(15)), "a changed registration was heard");
        assert_eq!(ledger.expired(secs(15)), [key(1)]);
        ledger.follow(secs(15), &key(1), Some(&live(0, 2)), true);
        assert_eq!(ledger.due(&key(1)), Some(secs(6)), "an absurd timeout is a second");
        ledger.follow(secs(15), &key(1), Some(&live(u64::MAX, 3)), true);
        assert!(ledger.expired(secs(1 << 20)).is_empty());
    }

    #[test]
    fn a_postponed_broker_that_was_heard_expires_by_its_timeout_again() {
        let mut ledger = Ledger::default();
        ledger.follow(secs(0), &key(1), Some(&live(10_000, 1)), true);
        ledger.postpone(&key(1), secs(600));
        assert!(ledger.expired(secs(100)).is_empty());
        ledger.heard(&key(1), secs(100));
        assert_eq!(ledger.expired(secs(110)), [key(1)]);
    }

    #[test]
    fn time_that_nobody_can_tell_of_is_no_silence() {
        let mut ledger = Ledger::default();
        ledger.follow(secs(0), &key(1), Some(&live(10_000, 1)), true);
        ledger.follow(secs(0), &key(2), Some(&live(10_000, 1)), true);
        ledger.heard(&key(2), secs(5));
        ledger.excuse_all(secs(4), secs(7));
        assert_eq!((ledger.due(&key(1)), ledger.due(&key(2))), (Some(secs(13)), Some(secs(17))));
        ledger.excuse(&key(1), secs(8), secs(9));
        assert!(ledger.expired(secs(13)).is_empty());
        assert_eq!(ledger.expired(secs(14)), [key(1)]);
        ledger.excuse_all(secs(0), secs(50));
        assert!(ledger.expired(secs(59)).is_empty());
        assert_eq!(ledger.expired(secs(60)), [key(1), key(2)]);
    }

    #[test]
    fn what_others_know_replaces_the_beginning_but_not_what_was_heard_since() {
        let mut ledger = Ledger::default();
        for n in 1..=3 {
            ledger.follow(secs(50), &key(n), Some(&live(10_000, 1)), false);
        }
        ledger.heard(&key(2), secs(52));
        ledger.inherit(&key(1), secs(44), secs(55));
        ledger.inherit(&key(2), secs(44), secs(55));
        ledger.inherit(&key(3), secs(54), secs(55));
        let heard = [1, 2, 3].map(|n| ledger.last_heard(&key(n)).unwrap());
        assert_eq!(heard, [secs(44), secs(52), secs(50)], "never later than this process's own clock");
        assert_eq!(ledger.expired(secs(54)), [key(1)]);
    }

    #[test]
    fn a_clock_that_starts_anew_is_no_word_of_the_broker() {
        let mut ledger = Ledger::default();
        ledger.follow(secs(5), &key(1), Some(&live(10_000, 1)), false);
        ledger.follow(secs(5), &key(2), Some(&live(10_000, 1)), true);
        ledger.start_anew_for(&key(1), secs(6));
        ledger.excuse_all(secs(0), secs(7));
        assert_eq!((ledger.spoke(&key(1)), ledger.spoke(&key(2))), (Some(secs(0)), Some(secs(5))));
        assert_eq!(ledger.last_heard(&key(1)), Some(secs(7)));
        ledger.heard(&key(1), secs(8));
        assert_eq!((ledger.spoke(&key(1)), ledger.last_heard(&key(1))), (Some(secs(5)), Some(secs(8))));
        ledger.heard(&key(2), secs(7));
        assert_eq!(ledger.spoke(&key(2)), Some(secs(5)), "it may have been sent before");
    }
}
