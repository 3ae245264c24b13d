//! The lease table: one lease per broker of the table, and which have expired.

use super::sessions::Keyed;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use storage::Position;
use storage::command::Name;
use storage::route_info::{BrokerKey, BrokerLiveInfo};

/// No timeout counts as shorter: idle times are known no finer than reports come.
pub(super) const TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// No timeout counts as longer.
const TIMEOUT_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// What a lease has left at least after a change of leader or the loss of a node: this, or a quarter of the timeout.
const GRACE_MIN: Duration = Duration::from_secs(10);
/// A heartbeat that a broker sent before it was lost may arrive this late: TCP sends it again after 0.2, 0.4 and 0.8 s,
/// and it reaches the leader with a report.
const LATE_HEARTBEATS: Duration = Duration::from_secs(3);

/// The lease of a broker. All moments are in-service time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) broker: Name,
    pub(super) timeout: Duration,
    pub(super) incarnation: Position,
    /// Since when this leader counts; the last heartbeat counts instead once one is known.
    started: Duration,
    /// The last heartbeat or applied registration.
    heartbeat: Option<Duration>,
    /// When the broker was certainly alive: its registration was applied, or a heartbeat came [`LATE_HEARTBEATS`]
    /// later. Zero: unknown.
    alive: Duration,
    /// It does not expire before that.
    extended_until: Duration,
    /// Its place in the index: not later than it expires, unless it was postponed.
    look_at: Duration,
}

impl Lease {
    /// Since when the broker is idle.
    pub(super) fn idle_since(&self) -> Duration {
        self.heartbeat.unwrap_or(self.started)
    }

    /// When its own timeout has passed, or the grace if that is later.
    pub(super) fn deadline(&self) -> Duration {
        (self.idle_since() + self.timeout).max(self.extended_until)
    }

    /// When the broker was certainly alive; zero when that is unknown.
    pub(super) fn alive(&self) -> Duration {
        self.alive
    }
}

/// The leases of all brokers of the table.
///
/// The index holds each broker once, at a moment not later than its deadline. A heartbeat does not touch the index; the
/// deadline is worked out when that moment has come.
#[derive(Debug)]
pub(super) struct Leases {
    brokers: HashMap<BrokerKey, Lease, Keyed>,
    index: BTreeSet<(Duration, BrokerKey)>,
}

impl Leases {
    /// Of the brokers that a leader finds in its table; no heartbeat is known yet.
    pub(super) fn new<'a>(
        keyed: Keyed,
        now: Duration,
        table: impl Iterator<Item = (&'a BrokerKey, &'a BrokerLiveInfo)>,
    ) -> Self {
        let mut leases = Self { brokers: HashMap::with_hasher(keyed), index: BTreeSet::new() };
        table.for_each(|(key, live)| leases.grant(now, key, live));
        leases
    }

    fn grant(&mut self, now: Duration, key: &BrokerKey, live: &BrokerLiveInfo) {
        let timeout = Duration::from_millis(live.timeout_ms).clamp(TIMEOUT_MIN, TIMEOUT_MAX);
        let lease = Lease {
            broker: live.broker.clone(),
            timeout,
            incarnation: live.incarnation,
            started: now,
            heartbeat: None,
            alive: Duration::ZERO,
            extended_until: Duration::ZERO,
            look_at: now + timeout,
        };
        self.index.insert((lease.look_at, key.clone()));
        self.brokers.insert(key.clone(), lease);
    }

    /// Follows the table: the registration of a broker, or that there is none. A registration that is new or changed
    /// renews the lease.
    pub(super) fn follow(&mut self, now: Duration, key: &BrokerKey, live: Option<&BrokerLiveInfo>) {
        let Some(live) = live else { return self.revoke(key) };
        let renewed = self.brokers.get(key).filter(|lease| lease.incarnation == live.incarnation).is_none();
        if !renewed {
            return;
        }
        let before = self.brokers.get(key).map(|lease| (lease.heartbeat, lease.look_at));
        if let Some((_, look_at)) = before {
            self.index.remove(&(look_at, key.clone()));
        }
        self.grant(now, key, live);
        if let Some(lease) = self.brokers.get_mut(key) {
            lease.heartbeat = Some(now).max(before.and_then(|(heartbeat, _)| heartbeat));
            lease.alive = now;
        }
    }

    fn revoke(&mut self, key: &BrokerKey) {
        if let Some(lease) = self.brokers.remove(key) {
            self.index.remove(&(lease.look_at, key.clone()));
        }
    }

    /// A broker was heard then.
    pub(super) fn renew(&mut self, key: &BrokerKey, at: Duration) {
        let Some(lease) = self.brokers.get_mut(key) else { return };
        lease.alive = lease.alive.max(at.saturating_sub(LATE_HEARTBEATS));
        lease.heartbeat = lease.heartbeat.max(Some(at));
        // It may have been postponed, or its first known heartbeat lies before the leader's begin.
        if lease.look_at > lease.deadline() {
            self.place(key);
        }
    }

    /// A broker's lease has at least the grace left: a heartbeat may be lost with the node that heard it.
    pub(super) fn extend(&mut self, now: Duration, key: &BrokerKey) {
        if let Some(lease) = self.brokers.get_mut(key) {
            let grace = lease.timeout.min(GRACE_MIN.max(lease.timeout / 4));
            lease.extended_until = lease.extended_until.max(now + grace);
        }
    }

    /// The same for all brokers.
    pub(super) fn extend_all(&mut self, now: Duration) {
        let keys: Vec<BrokerKey> = self.brokers.keys().cloned().collect();
        keys.iter().for_each(|key| self.extend(now, key));
    }

    /// Puts a broker into the index where it expires.
    fn place(&mut self, key: &BrokerKey) {
        if let Some(deadline) = self.brokers.get(key).map(Lease::deadline) {
            self.postpone(key, deadline);
        }
    }

    /// Looks at a broker again no earlier than `until`, unless it is heard.
    pub(super) fn postpone(&mut self, key: &BrokerKey, until: Duration) {
        let Some(lease) = self.brokers.get_mut(key) else { return };
        self.index.remove(&(lease.look_at, key.clone()));
        lease.look_at = until;
        self.index.insert((until, key.clone()));
    }

    /// The brokers whose leases have expired.
    pub(super) fn expired(&mut self, now: Duration) -> Vec<BrokerKey> {
        let due = self.index.iter().take_while(|(look_at, _)| *look_at <= now);
        let (mut expired, mut later) = (Vec::new(), Vec::new());
        for (_, key) in due {
            let is_over = self.brokers.get(key).is_none_or(|lease| lease.deadline() <= now);
            if is_over { &mut expired } else { &mut later }.push(key.clone());
        }
        later.iter().for_each(|key| self.place(key));
        expired
    }

    pub(super) fn get(&self, key: &BrokerKey) -> Option<&Lease> {
        self.brokers.get(key)
    }

    /// All leases, in no order.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&BrokerKey, &Lease)> {
        self.brokers.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::key;
    use super::*;
    use storage::command::DataVersion;

    const fn secs(n: u64) -> Duration {
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

    fn leases(at: u64, timeouts_ms: &[u64]) -> Leases {
        let lives: Vec<_> = (1..).zip(timeouts_ms).map(|(n, ms)| (key(n), live(*ms, 1))).collect();
        Leases::new(Keyed::default(), secs(at), lives.iter().map(|(key, live)| (key, live)))
    }

    #[test]
    fn idle_for_longer_than_its_own_timeout() {
        let mut leases = leases(0, &[10_000, 120_000]);
        assert!(leases.expired(secs(9)).is_empty());
        leases.renew(&key(1), secs(9));
        assert!(leases.expired(secs(10)).is_empty());
        assert_eq!(leases.expired(secs(19)), [key(1)]);
        assert_eq!(leases.expired(secs(20)), [key(1)], "from state, not once");
        assert_eq!(leases.expired(secs(120)), [key(1), key(2)]);
        leases.follow(secs(120), &key(1), None);
        assert_eq!(leases.expired(secs(120)), [key(2)]);
        assert_eq!(leases.index.len(), leases.brokers.len());
    }

    #[test]
    fn a_registration_that_changed_renews_with_its_own_timeout() {
        let mut leases = leases(0, &[120_000]);
        leases.follow(secs(5), &key(1), Some(&live(10_000, 2)));
        leases.follow(secs(8), &key(1), Some(&live(10_000, 2)));
        assert_eq!(leases.get(&key(1)).map(Lease::deadline), Some(secs(15)), "the same one does not renew");
        assert_eq!(leases.expired(secs(15)), [key(1)]);
        leases.follow(secs(15), &key(1), Some(&live(0, 3)));
        assert_eq!(leases.get(&key(1)).map(Lease::deadline), Some(secs(16)), "an absurd timeout is a second");
        leases.follow(secs(15), &key(1), Some(&live(u64::MAX, 4)));
        assert!(leases.expired(secs(1 << 20)).is_empty());
        assert_eq!(leases.index.len(), 1);
    }

    #[test]
    fn a_postponed_broker_with_a_heartbeat_expires_by_its_timeout_again() {
        let mut leases = leases(0, &[10_000]);
        leases.postpone(&key(1), secs(600));
        assert!(leases.expired(secs(100)).is_empty());
        leases.renew(&key(1), secs(100));
        assert_eq!(leases.expired(secs(110)), [key(1)]);
    }

    #[test]
    fn a_new_leader_takes_the_reported_idle_time_and_gives_the_grace() {
        let mut leases = leases(1_000, &[120_000, 120_000, 6_000, 20_000]);
        // Idle for 115 s when the leader began, and for 15 s.
        leases.renew(&key(1), secs(1_000 - 115));
        leases.renew(&key(4), secs(1_000 - 15));
        assert_eq!(leases.get(&key(1)).map(Lease::deadline), Some(secs(1_005)));
        leases.extend_all(secs(1_001));
        let deadlines = [1, 2, 3, 4].map(|n| leases.get(&key(n)).unwrap().deadline());
        assert_eq!(
            deadlines,
            [secs(1_031), secs(1_120), secs(1_007), secs(1_011)],
            "unreported brokers begin at zero"
        );
        assert!(leases.expired(secs(1_006)).is_empty());
        assert_eq!(leases.expired(secs(1_012)), [key(3), key(4)]);
        leases.renew(&key(3), secs(1_012));
        assert_eq!(leases.expired(secs(1_018)), [key(3), key(4)]);
    }

    #[test]
    fn only_a_heartbeat_that_was_not_sent_long_before_proves_that_a_broker_is_alive() {
        let mut leases = leases(5, &[10_000, 10_000]);
        leases.follow(secs(6), &key(2), Some(&live(10_000, 2)));
        leases.extend_all(secs(7));
        let alive = |leases: &Leases, n| leases.get(&key(n)).unwrap().alive();
        assert_eq!((alive(&leases, 1), alive(&leases, 2)), (secs(0), secs(6)));
        leases.renew(&key(1), secs(8));
        leases.renew(&key(2), secs(8));
        assert_eq!(
            (alive(&leases, 1), alive(&leases, 2)),
            (secs(5), secs(6)),
            "it may have been sent before"
        );
    }
}
