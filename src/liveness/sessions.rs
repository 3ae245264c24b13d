//! The sessions of this node: which brokers speak over which of its connections, and when each was last heard here.

use super::clock::millis;
use super::messages::{End, FullReport, SessionChange};
use super::{ClosedBy, SessionId, SessionsFull, Strength};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, DefaultHasher, Hasher};
use std::time::Duration;
use storage::Position;
use storage::route_info::BrokerKey;

/// Brokers that may speak over one connection.
pub(super) const BROKERS_PER_CONNECTION_MAX: usize = 1_024;
/// Bytes of the names of all brokers with a session, and of those with a pending disconnect: what a full report carries.
pub(super) const NAMES_BYTES_MAX: usize = 8 << 20;
/// Pending disconnects that are kept for full reports, and departed brokers likewise.
const KEPT_MAX: usize = 65_536;

/// Hashes under a random key: peers choose the names of brokers and must not be able to choose their hashes. The key is
/// given, since a simulated run must follow from its seed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Keyed(pub(super) u64);

impl BuildHasher for Keyed {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}

/// A value for each of some brokers, bounded by [`KEPT_MAX`] and [`NAMES_BYTES_MAX`]: what does not fit is not kept.
#[derive(Debug)]
struct Bounded<V> {
    values: BTreeMap<BrokerKey, V>,
    names_bytes: usize,
}

impl<V> Default for Bounded<V> {
    fn default() -> Self {
        Self { values: BTreeMap::new(), names_bytes: 0 }
    }
}

impl<V> Bounded<V> {
    fn insert(&mut self, key: &BrokerKey, value: V) {
        if let Some(kept) = self.values.get_mut(key) {
            *kept = value;
        } else if self.values.len() < KEPT_MAX && self.names_bytes + key.name_bytes() <= NAMES_BYTES_MAX {
            self.names_bytes += key.name_bytes();
            self.values.insert(key.clone(), value);
        }
    }

    fn remove(&mut self, key: &BrokerKey) {
        if self.values.remove(key).is_some() {
            self.names_bytes -= key.name_bytes();
        }
    }

    fn retain(&mut self, keep: impl Fn(&BrokerKey, &V) -> bool) {
        let dropped = self.values.extract_if(.., |key, value| !keep(key, value));
        self.names_bytes -= dropped.map(|(key, _)| key.name_bytes()).sum::<usize>();
    }

    fn get(&self, key: &BrokerKey) -> Option<&V> {
        self.values.get(key)
    }

    fn iter(&self) -> impl Iterator<Item = (&BrokerKey, &V)> {
        self.values.iter()
    }
}

/// Sessions of this node.
#[derive(Debug)]
pub(super) struct Sessions {
    connections: HashMap<SessionId, BTreeSet<BrokerKey>>,
    brokers: HashMap<BrokerKey, BrokerSessions, Keyed>,
    /// Brokers that were heard since the last report, each once.
    unreported: Vec<BrokerKey>,
    /// Brokers without a session here, when each was last heard here, and whether the peer ended the last session.
    /// Beyond the limits the next leader begins to count at zero.
    departed: Bounded<(Duration, bool)>,
    /// Disconnects that the leader has not settled yet, with the registration that each session stood for. Beyond the
    /// limits a disconnect is reported as a change only: when that is lost, the broker leaves by its timeout.
    disconnects: Bounded<Position>,
    /// Pairs of a connection and a broker.
    sessions: usize,
    names_bytes: usize,
    sessions_max: usize,
    refused: u64,
}

/// A broker with a session here.
#[derive(Debug)]
struct BrokerSessions {
    over: BTreeMap<SessionId, Strength>,
    /// The newest registration that was accepted here while sessions were open. A disconnect is reported with this one,
    /// not with the table's: a node that learns late of a close must not take it for the end of a successor.
    incarnation: Option<Position>,
    /// In-service time of the last heartbeat here.
    last_heartbeat: Duration,
    is_unreported: bool,
    /// The leader's last answer said so, and no REGISTER came since.
    not_registered: bool,
}

impl BrokerSessions {
    fn strength(&self) -> Option<Strength> {
        self.over.values().copied().max()
    }
}

impl Sessions {
    /// None yet; at most so many pairs of a connection and a broker.
    pub(super) fn new(keyed: Keyed, sessions_max: usize) -> Self {
        Self {
            connections: HashMap::new(),
            brokers: HashMap::with_hasher(keyed),
            unreported: Vec::new(),
            departed: Bounded::default(),
            disconnects: Bounded::default(),
            sessions: 0,
            names_bytes: 0,
            sessions_max,
            refused: 0,
        }
    }

    /// A broker was heard on a connection; after a REGISTER, `incarnation` is what this node's table has. Gives the change
    /// when a session opened or became strong.
    pub(super) fn heartbeat(
        &mut self,
        at: Duration,
        session: SessionId,
        key: &BrokerKey,
        strength: Strength,
        incarnation: Option<Position>,
    ) -> Result<Option<SessionChange>, SessionsFull> {
        let known = self.brokers.get_mut(key).filter(|broker| broker.over.contains_key(&session));
        let broker = match known {
            Some(broker) => broker,
            None => self.open(at, session, key)?,
        };
        broker.last_heartbeat = at;
        broker.incarnation = broker.incarnation.max(incarnation);
        let newly_unreported = !std::mem::replace(&mut broker.is_unreported, true);
        broker.not_registered &= strength == Strength::Weak;
        let had = broker.over.get(&session).copied();
        broker.over.insert(session, had.map_or(strength, |had| had.max(strength)));
        let change = (had < Some(strength)).then(|| broker.strength().unwrap_or(strength));
        if newly_unreported {
            self.unreported.push(key.clone());
        }
        if change.is_some() && strength == Strength::Strong {
            self.settle(key);
        }
        Ok(change.map(|strongest| SessionChange::Opened(key.clone(), strongest)))
    }

    /// A broker speaks over a connection for the first time.
    fn open(
        &mut self,
        at: Duration,
        session: SessionId,
        key: &BrokerKey,
    ) -> Result<&mut BrokerSessions, SessionsFull> {
        let over_connection = self.connections.get(&session).map_or(0, BTreeSet::len);
        if self.sessions >= self.sessions_max
            || self.names_bytes + key.name_bytes() > NAMES_BYTES_MAX
            || over_connection >= BROKERS_PER_CONNECTION_MAX
        {
            self.refused += 1;
            return Err(SessionsFull);
        }
        self.sessions += 1;
        self.names_bytes += key.name_bytes();
        self.connections.entry(session).or_default().insert(key.clone());
        self.forget_departed(key);
        Ok(self.brokers.entry(key.clone()).or_insert_with(|| BrokerSessions {
            over: BTreeMap::new(),
            incarnation: None,
            last_heartbeat: at,
            is_unreported: false,
            not_registered: false,
        }))
    }

    /// A connection is over. Gives one change for each broker that spoke over it.
    ///
    /// An end counts as the peer's only if the broker was heard from `trust_after` on: see
    /// [`InServiceClock::trust_disconnects_after`](super::clock::InServiceClock::trust_disconnects_after).
    pub(super) fn close(
        &mut self,
        session: SessionId,
        by: ClosedBy,
        trust_after: Duration,
    ) -> Vec<SessionChange> {
        let mut changes = Vec::new();
        for key in self.connections.remove(&session).unwrap_or_default() {
            let Some(broker) = self.brokers.get_mut(&key) else { continue };
            let Some(ended) = broker.over.remove(&session) else { continue };
            self.sessions -= 1;
            self.names_bytes -= key.name_bytes();
            let left = broker.strength();
            let was_last_strong = ended == Strength::Strong && left != Some(Strength::Strong);
            let stood_for = broker.incarnation.filter(|_| was_last_strong);
            let end = match by {
                ClosedBy::Peer if broker.last_heartbeat >= trust_after => {
                    stood_for.map_or(End::ByPeer, End::Disconnect)
                }
                ClosedBy::Peer | ClosedBy::ThisNode => End::ByNode,
            };
            if left.is_none() {
                let (last_heartbeat, registered) = (broker.last_heartbeat, !broker.not_registered);
                self.brokers.remove(&key);
                if registered {
                    self.departed.insert(&key, (last_heartbeat, end != End::ByNode));
                }
            }
            if let End::Disconnect(incarnation) = end {
                let newest = self.disconnects.get(&key).copied().max(Some(incarnation));
                self.disconnects.insert(&key, newest.unwrap_or(incarnation));
            }
            changes.push(SessionChange::Ended(key, left, end));
        }
        changes
    }

    /// A broker was removed from the table.
    pub(super) fn forget_departed(&mut self, key: &BrokerKey) {
        self.departed.remove(key);
    }

    /// A disconnect needs no report any more: the broker has a session here, or the leader said so.
    pub(super) fn settle(&mut self, key: &BrokerKey) {
        self.disconnects.remove(key);
    }

    /// Drops the disconnects that `keep` does not want: those whose removal was applied.
    pub(super) fn retain_disconnects(&mut self, keep: impl Fn(&BrokerKey, Position) -> bool) {
        self.disconnects.retain(|key, incarnation| keep(key, *incarnation));
    }

    /// Disconnects that the leader has not settled yet.
    pub(super) fn disconnects(&self) -> Vec<(BrokerKey, Position)> {
        self.disconnects.iter().map(|(key, incarnation)| (key.clone(), *incarnation)).collect()
    }

    /// Takes the brokers that were heard since the last call, about `max` at most, with the in-service time of each.
    pub(super) fn take_unreported(&mut self, max: usize) -> Vec<(BrokerKey, Duration)> {
        let keys = self.unreported.split_off(self.unreported.len().saturating_sub(max));
        let heartbeats = keys.into_iter().filter_map(|key| {
            let at = match self.brokers.get_mut(&key) {
                Some(broker) => std::mem::take(&mut broker.is_unreported).then_some(broker.last_heartbeat),
                // Its last session has ended since.
                None => self.departed.get(&key).map(|(at, _)| *at),
            };
            Some((key, at?))
        });
        heartbeats.collect()
    }

    /// While this node reports to no leader nothing is gathered: the next report is a full one.
    pub(super) fn forget_unreported(&mut self) {
        self.unreported.clear();
    }

    /// Whether brokers were heard since the last report.
    pub(super) fn has_unreported(&self) -> bool {
        !self.unreported.is_empty()
    }

    /// All sessions, and when each broker was heard: nothing is unreported after it.
    pub(super) fn full_report(&mut self, now: Duration) -> FullReport {
        self.forget_unreported();
        let sessions = self.brokers.iter_mut().filter_map(|(key, broker)| {
            broker.is_unreported = false;
            Some((key.clone(), broker.strength()?, millis(now.saturating_sub(broker.last_heartbeat))))
        });
        let mut sessions: Vec<_> = sessions.collect();
        // The order of a hash map follows from more than what is in it.
        sessions.sort_unstable();
        let departed = self.departed.iter();
        let departed =
            departed.map(|(key, (at, by_peer))| (key.clone(), millis(now.saturating_sub(*at)), *by_peer));
        FullReport { sessions, departed: departed.collect(), disconnects: self.disconnects() }
    }

    /// The leader's answer on a broker that has a session here.
    pub(super) fn note_status(&mut self, key: &BrokerKey, registered: bool) {
        if let Some(broker) = self.brokers.get_mut(key) {
            broker.not_registered = !registered;
        }
    }

    /// Whether the leader's last answer said that a broker with a session here is not registered.
    pub(super) fn is_not_registered(&self, key: &BrokerKey) -> bool {
        self.brokers.get(key).is_some_and(|broker| broker.not_registered)
    }

    /// In-service time of a broker's last heartbeat here.
    pub(super) fn last_heartbeat(&self, key: &BrokerKey) -> Option<Duration> {
        let here = self.brokers.get(key).map(|broker| broker.last_heartbeat);
        here.or_else(|| self.departed.get(key).map(|(at, _)| *at))
    }

    /// The strongest session of a broker here.
    pub(super) fn strength(&self, key: &BrokerKey) -> Option<Strength> {
        self.brokers.get(key)?.strength()
    }

    /// The connections over which a broker speaks.
    pub(super) fn connections_of(&self, key: &BrokerKey) -> Vec<SessionId> {
        self.brokers.get(key).map(|broker| broker.over.keys().copied().collect()).unwrap_or_default()
    }

    /// All brokers that were heard here, in no order: key and in-service time of the last heartbeat.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&BrokerKey, Duration)> {
        let here = self.brokers.iter().map(|(key, broker)| (key, broker.last_heartbeat));
        here.chain(self.departed.iter().map(|(key, (at, _))| (key, *at)))
    }

    /// Heartbeats that were refused since no further session fits.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::key;
    use super::*;

    const AT: Duration = Duration::from_secs(1);

    fn hear(
        sessions: &mut Sessions,
        session: u64,
        broker: &BrokerKey,
    ) -> Result<Option<SessionChange>, SessionsFull> {
        let incarnation = Some(Position { index: 7, number: 0 });
        sessions.heartbeat(AT, SessionId(session), broker, Strength::Strong, incarnation)
    }

    fn close(sessions: &mut Sessions, session: u64) -> Vec<SessionChange> {
        sessions.close(SessionId(session), ClosedBy::Peer, AT)
    }

    #[test]
    fn a_full_table_refuses_further_sessions_and_tracks_no_half_of_a_broker() {
        let mut sessions = Sessions::new(Keyed::default(), 2);
        assert!(hear(&mut sessions, 1, &key(1)).is_ok() && hear(&mut sessions, 2, &key(2)).is_ok());
        assert_eq!(hear(&mut sessions, 3, &key(1)), Err(SessionsFull));
        assert_eq!(hear(&mut sessions, 3, &key(3)), Err(SessionsFull));
        assert_eq!(hear(&mut sessions, 1, &key(1)), Ok(None), "a known one goes on");
        assert_eq!((sessions.refused(), sessions.last_heartbeat(&key(3))), (2, None));
        assert_eq!(close(&mut sessions, 3), []);
        let ended = close(&mut sessions, 1);
        assert!(matches!(ended[..], [SessionChange::Ended(_, None, End::Disconnect(_))]), "{ended:?}");
        assert!(hear(&mut sessions, 3, &key(3)).is_ok(), "there is room again");
    }

    #[test]
    fn one_connection_cannot_take_all_places() {
        let mut sessions = Sessions::new(Keyed::default(), 10 * BROKERS_PER_CONNECTION_MAX);
        let last_heartbeat =
            (0..2 * BROKERS_PER_CONNECTION_MAX).filter(|n| hear(&mut sessions, 1, &key(*n)).is_ok());
        assert_eq!(last_heartbeat.count(), BROKERS_PER_CONNECTION_MAX);
        assert!(hear(&mut sessions, 2, &key(0)).is_ok());
        assert_eq!(close(&mut sessions, 1).len(), BROKERS_PER_CONNECTION_MAX);
        assert_eq!((sessions.sessions, sessions.names_bytes), (1, key(0).name_bytes()));
    }

    #[test]
    fn a_full_report_is_bounded_in_bytes() {
        let mut sessions = Sessions::new(Keyed::default(), usize::MAX);
        let long = |n| BrokerKey { cluster: "c".repeat(1_000).into(), address: format!("{n}").into() };
        let last_heartbeat = (0..20_000).filter(|n| hear(&mut sessions, n / 100, &long(*n)).is_ok()).count();
        assert!(last_heartbeat < 20_000, "all were taken");
        let names = |keys: Vec<&BrokerKey>| keys.into_iter().map(BrokerKey::name_bytes).sum::<usize>();
        let full = sessions.full_report(AT);
        assert!(names(full.sessions.iter().map(|(key, ..)| key).collect()) <= NAMES_BYTES_MAX);
        (0..200).for_each(|session| drop(close(&mut sessions, session)));
        let full = sessions.full_report(AT);
        assert!(!full.disconnects.is_empty() && full.sessions.is_empty());
        assert!(names(full.disconnects.iter().map(|(key, _)| key).collect()) <= NAMES_BYTES_MAX);
    }

    #[test]
    fn pending_disconnects_are_bounded_and_end_with_a_strong_session() {
        let mut sessions = Sessions::new(Keyed::default(), usize::MAX);
        for n in 0..KEPT_MAX + 10 {
            hear(&mut sessions, 1, &key(n)).unwrap();
            assert_eq!(close(&mut sessions, 1).len(), 1, "reported as a change");
        }
        assert_eq!(sessions.disconnects().len(), KEPT_MAX);
        sessions.heartbeat(AT, SessionId(2), &key(0), Strength::Weak, None).unwrap();
        assert_eq!(sessions.disconnects().len(), KEPT_MAX, "a weak session only holds the broker");
        hear(&mut sessions, 2, &key(0)).unwrap();
        assert_eq!(sessions.disconnects().len(), KEPT_MAX - 1);
        sessions.retain_disconnects(|broker, _| *broker == key(5));
        assert_eq!(
            (sessions.disconnects().len(), sessions.disconnects.names_bytes),
            (1, key(5).name_bytes())
        );
    }

    #[test]
    fn how_a_session_ended() {
        let mut sessions = Sessions::new(Keyed::default(), 100);
        let ends = |changes: Vec<SessionChange>| -> Vec<_> {
            let end = |change| match change {
                SessionChange::Ended(_, left, end) => (left, end),
                SessionChange::Opened(..) => panic!("a close opens nothing"),
            };
            changes.into_iter().map(end).collect()
        };
        for session in 1..=4 {
            hear(&mut sessions, session, &key(1)).unwrap();
        }
        sessions.heartbeat(AT, SessionId(5), &key(1), Strength::Weak, None).unwrap();
        assert_eq!(ends(close(&mut sessions, 1)), [(Some(Strength::Strong), End::ByPeer)]);
        let by_us = sessions.close(SessionId(2), ClosedBy::ThisNode, AT);
        assert_eq!(ends(by_us), [(Some(Strength::Strong), End::ByNode)]);
        let distrusted = sessions.close(SessionId(3), ClosedBy::Peer, AT + Duration::from_millis(1));
        assert_eq!(ends(distrusted), [(Some(Strength::Strong), End::ByNode)], "not heard since then");
        let at = Position { index: 7, number: 0 };
        assert_eq!(ends(close(&mut sessions, 4)), [(Some(Strength::Weak), End::Disconnect(at))]);
        assert_eq!(ends(close(&mut sessions, 5)), [(None, End::ByPeer)]);
    }
}
