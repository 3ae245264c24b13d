//! The sessions of this node: which brokers speak over which of its connections.

use super::by_broker::{BrokerMap, Keyed};
use super::clock::{Running, millis};
use super::report::{Cause, Change, End, Full, Word};
use super::telling::{Pace, Waiting};
use super::{ClosedBy, Heard, SessionId, Strength};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;
use storage::Position;
use storage::route_info::BrokerKey;

/// How many brokers may speak over one connection; further ones count as those beyond `session_pairs_max`.
pub(super) const BROKERS_PER_CONNECTION_MAX: usize = 1_024;
/// Names of all brokers on connections, and of those that ended theirs, bytes each: what a full report can carry.
pub(super) const NAMES_BYTES_MAX: usize = 8 << 20;

/// Ends that are kept.
const ENDS_MAX: usize = 65_536;
/// How long an end is kept at least for full reports: a report that was lost is replaced well within it.
const ENDS_KEPT_FOR: Duration = Duration::from_secs(10);

/// Sessions of this node.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    connections: HashMap<SessionId, BTreeSet<BrokerKey>>,
    brokers: BrokerMap<Here>,
    /// The last end by the peer of brokers that have opened no session here since.
    ended: BTreeMap<BrokerKey, (End, Running)>,
    ends: u64,
    ended_bytes: usize,
    pairs: usize,
    pairs_bytes: usize,
    pairs_max: usize,
    refused: u64,
    waiting: Waiting,
    /// Words that waited when the last session of their broker ended.
    last_words: Vec<(BrokerKey, Running)>,
}

/// A broker with a session here.
#[derive(Debug)]
struct Here {
    strong: usize,
    weak: usize,
    over: BTreeMap<SessionId, Strength>,
    /// The newest registration that was accepted here while sessions were open. A close is told with this one, not
    /// with the table's: a node that learns late of a close must not take it for the end of a successor.
    stands_for: Option<Position>,
    /// It also speaks over a connection that is not followed: that the others end does not mean that it is gone.
    unfollowed: bool,
    heard: Running,
    word: Option<LeaderWord>,
    pace: Pace,
}

/// What a leader said of a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeaderWord {
    pub(super) term: u64,
    pub(super) applied: u64,
    pub(super) word: Word,
}

impl Here {
    fn new(heard: Running, stands_for: Option<Position>) -> Self {
        Self {
            strong: 0,
            weak: 0,
            over: BTreeMap::new(),
            stands_for,
            unfollowed: false,
            heard,
            word: None,
            pace: Pace::default(),
        }
    }

    fn strength(&self) -> Option<Strength> {
        match (self.strong, self.weak) {
            (0, 0) => None,
            (0, _) => Some(Strength::Weak),
            _ => Some(Strength::Strong),
        }
    }

    fn count(&mut self, strength: Strength) -> &mut usize {
        match strength {
            Strength::Weak => &mut self.weak,
            Strength::Strong => &mut self.strong,
        }
    }
}

impl Sessions {
    /// None yet.
    pub(super) fn new(keyed: Keyed, pairs_max: usize) -> Self {
        Self { brokers: BrokerMap::with_hasher(keyed), pairs_max, ..Self::default() }
    }

    /// A broker was heard on a connection; after a REGISTER, `incarnation` is what this node's table has. Gives the change
    /// when a session opened or became strong, or is not followed.
    pub(super) fn heard(
        &mut self,
        at: Running,
        session: SessionId,
        broker: &BrokerKey,
        what: Heard,
        incarnation: Option<Position>,
    ) -> Option<Change> {
        let wanted = match what {
            Heard::Register => Strength::Strong,
            Heard::Heartbeat => Strength::Weak,
        };
        let here = self.brokers.get_mut(broker);
        let had = here.as_ref().and_then(|here| here.over.get(&session)).copied();
        // A connection that is followed stays so: nothing is looked up for what comes every second.
        let beyond = had.is_none()
            && (self.pairs >= self.pairs_max
                || self.pairs_bytes + broker.name_bytes() > NAMES_BYTES_MAX
                || self.connections.get(&session).is_some_and(|all| all.len() >= BROKERS_PER_CONNECTION_MAX));
        if let Some(here) = here {
            here.heard = at;
            here.unfollowed |= beyond;
            here.stands_for = here.stands_for.max(incarnation);
            if what == Heard::Register {
                here.word = None;
            }
        }
        if had >= Some(wanted) {
            return None;
        }
        if beyond {
            self.refused += 1;
            let strength = self.brokers.get(broker).and_then(Here::strength);
            return Some(Change { broker: broker.clone(), strength, cause: Cause::NotFollowed });
        }
        let here = self.brokers.entry(broker.clone()).or_insert_with(|| Here::new(at, incarnation));
        here.over.insert(session, wanted);
        match had {
            Some(had) => *here.count(had) -= 1,
            None => {
                self.pairs += 1;
                self.pairs_bytes += broker.name_bytes();
            }
        }
        *here.count(wanted) += 1;
        let strength = here.strength();
        self.connections.entry(session).or_default().insert(broker.clone());
        if self.ended.remove(broker).is_some() {
            self.ended_bytes -= broker.name_bytes();
        }
        Some(Change { broker: broker.clone(), strength, cause: Cause::Opened })
    }

    /// A connection is over. Gives the changes, one for each broker that spoke over it and whose end matters.
    ///
    /// The end of one that was not heard from `steady_from` on is no word of the peer: see [`Core::steady_from`].
    ///
    /// [`Core::steady_from`]: super::core::Core::steady_from
    pub(super) fn closed(
        &mut self,
        at: Running,
        session: SessionId,
        by: ClosedBy,
        steady_from: Running,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        for broker in self.connections.remove(&session).unwrap_or_default() {
            self.pairs -= 1;
            self.pairs_bytes -= broker.name_bytes();
            let Some(here) = self.brokers.get_mut(&broker) else { continue };
            let Some(strength) = here.over.remove(&session) else { continue };
            *here.count(strength) -= 1;
            let (left, last_strong) = (here.strength(), strength == Strength::Strong && here.strong == 0);
            let stood_for = here.stands_for.filter(|_| last_strong);
            let by = if here.unfollowed || here.heard < steady_from { ClosedBy::Us } else { by };
            if left.is_none() {
                if here.pace.waits() {
                    self.last_words.push((broker.clone(), here.heard));
                }
                self.brokers.remove(&broker);
            }
            let cause = match by {
                ClosedBy::Us => Cause::EndedByUs,
                ClosedBy::Peer => Cause::EndedByPeer(self.end(at, &broker, stood_for)),
            };
            changes.push(Change { broker, strength: left, cause });
        }
        changes
    }

    /// Whether the next report tells of a broker that was just heard. If not, the word waits until [`Self::words_due`].
    /// What the leader does not know, or this node's table, is told each time: the leader's word is wanted.
    pub(super) fn is_told(
        &mut self,
        now: Running,
        broker: &BrokerKey,
        timeout: Option<Duration>,
        what: Heard,
    ) -> bool {
        let (Some(here), Some(timeout)) = (self.brokers.get_mut(broker), timeout) else { return true };
        let known = here.word.is_none_or(|word| matches!(word.word, Word::Known(_)));
        if known && what == Heard::Heartbeat && here.pace.must_wait(now, timeout) {
            self.waiting.push(broker, &mut here.pace, timeout);
            return false;
        }
        here.pace.told(now);
        true
    }

    /// The words that have waited, with when each was heard.
    pub(super) fn words_due(&mut self, now: Running) -> Vec<(BrokerKey, Running)> {
        let mut words = std::mem::take(&mut self.last_words);
        for broker in self.waiting.due(now) {
            // A broker that came again since then has told that already.
            if let Some(here) = self.brokers.get_mut(&broker)
                && here.pace.tell(here.heard)
            {
                words.push((broker, here.heard));
            }
        }
        words
    }

    /// Numbers an end and keeps it for full reports. What an earlier end said of the last strong session stays said.
    fn end(&mut self, at: Running, broker: &BrokerKey, last_strong: Option<Position>) -> End {
        self.ends += 1;
        let end = End { number: self.ends, last_strong };
        let said = self.ended.get(broker).and_then(|(kept, _)| kept.last_strong);
        let kept = End { number: self.ends, last_strong: last_strong.max(said) };
        // Beyond that it is told as a change only, and when that is lost, the broker leaves by its timeout.
        if self.ended.len() < ENDS_MAX
            && self.ended_bytes + broker.name_bytes() <= NAMES_BYTES_MAX
            && self.ended.insert(broker.clone(), (kept, at)).is_none()
        {
            self.ended_bytes += broker.name_bytes();
        }
        end
    }

    /// Everything, for a full report.
    pub(super) fn full(&self, now: Running) -> Full {
        // Sorted, since a hash map's order follows from more than what is in it.
        let brokers: BTreeMap<_, _> = self.brokers.iter().collect();
        let sessions = brokers.into_iter().filter_map(|(broker, here)| {
            Some((broker.clone(), here.strength()?, millis(now.saturating_sub(here.heard))))
        });
        let ended = self.ended.iter().map(|(broker, (end, _))| (broker.clone(), *end));
        Full { sessions: sessions.collect(), ended: ended.collect(), asks_silences: false }
    }

    /// Forgets older ends that no longer matter: those that `keep` does not want.
    pub(super) fn retain_ends(&mut self, now: Running, keep: impl Fn(&BrokerKey) -> bool) {
        self.ended.retain(|broker, (_, at)| now < *at + ENDS_KEPT_FOR || keep(broker));
        self.ended_bytes = self.ended.keys().map(BrokerKey::name_bytes).sum();
    }

    /// The connections that a broker speaks over.
    pub(super) fn connections_of(&self, broker: &BrokerKey) -> Vec<SessionId> {
        self.brokers.get(broker).map(|here| here.over.keys().copied().collect()).unwrap_or_default()
    }

    /// Keeps the leader's word on a broker that has a session here.
    pub(super) fn note_word(&mut self, broker: &BrokerKey, word: LeaderWord) {
        if let Some(here) = self.brokers.get_mut(broker) {
            here.word = Some(word);
        }
    }

    /// The leader's last word on a broker that has a session here.
    pub(super) fn word(&self, broker: &BrokerKey) -> Option<LeaderWord> {
        self.brokers.get(broker)?.word
    }

    /// Words of brokers whose sessions were not followed.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::super::by_broker::key;
    use super::*;

    const AT: Running = Duration::from_secs(1);

    fn hear(sessions: &mut Sessions, session: u64, broker: &BrokerKey) -> Option<Change> {
        let change = sessions.heard(AT, SessionId(session), broker, Heard::Register, None);
        change.filter(|change| change.cause != Cause::NotFollowed)
    }

    /// Where not all of a broker's connections are followed, the end of those that are says nothing.
    #[test]
    fn a_broker_with_a_connection_that_is_not_followed_is_not_disconnected() {
        let mut sessions = Sessions::new(Keyed::default(), 2);
        assert!(hear(&mut sessions, 1, &key(1)).is_some() && hear(&mut sessions, 2, &key(2)).is_some());
        assert!(hear(&mut sessions, 3, &key(1)).is_none() && hear(&mut sessions, 3, &key(3)).is_none());
        assert_eq!(sessions.refused(), 2);
        let causes = |changes: Vec<Change>| changes.into_iter().map(|c| c.cause).collect::<Vec<_>>();
        assert_eq!(causes(sessions.closed(AT, SessionId(1), ClosedBy::Peer, AT)), [Cause::EndedByUs]);
        let ended = causes(sessions.closed(AT, SessionId(2), ClosedBy::Peer, AT));
        assert!(matches!(ended[..], [Cause::EndedByPeer(_)]));
        assert!(hear(&mut sessions, 3, &key(1)).is_some(), "there is room again");
    }

    #[test]
    fn one_connection_cannot_take_all_places() {
        let mut sessions = Sessions::new(Keyed::default(), 10 * BROKERS_PER_CONNECTION_MAX);
        let followed =
            (0..2 * BROKERS_PER_CONNECTION_MAX).filter(|n| hear(&mut sessions, 1, &key(*n)).is_some());
        assert_eq!(followed.count(), BROKERS_PER_CONNECTION_MAX);
        assert!(hear(&mut sessions, 2, &key(0)).is_some());
        assert_eq!(sessions.closed(AT, SessionId(1), ClosedBy::Peer, AT).len(), BROKERS_PER_CONNECTION_MAX);
        assert_eq!((sessions.pairs, sessions.pairs_bytes), (1, key(0).name_bytes()));
    }

    #[test]
    fn names_fit_a_report() {
        let mut sessions = Sessions::new(Keyed::default(), usize::MAX);
        let long = |n| BrokerKey { cluster: "c".repeat(1_000).into(), address: format!("{n}").into() };
        for n in 0..20_000 {
            hear(&mut sessions, n / 100, &long(n));
        }
        (0..100).for_each(|session| drop(sessions.closed(AT, SessionId(session), ClosedBy::Peer, AT)));
        let full = sessions.full(AT);
        let told = full.sessions.iter().map(|(broker, ..)| broker.name_bytes()).sum::<usize>();
        assert!(told <= NAMES_BYTES_MAX && !full.ended.is_empty(), "{told}");
        assert!(full.ended.iter().map(|(broker, _)| broker.name_bytes()).sum::<usize>() <= NAMES_BYTES_MAX);
    }

    #[test]
    fn ends_that_are_kept_are_bounded() {
        let mut sessions = Sessions::new(Keyed::default(), usize::MAX);
        for n in 0..ENDS_MAX + 10 {
            hear(&mut sessions, 1, &key(n));
            assert_eq!(sessions.closed(AT, SessionId(1), ClosedBy::Peer, AT).len(), 1, "told as a change");
        }
        assert_eq!(sessions.full(AT).ended.len(), ENDS_MAX);
    }
}
