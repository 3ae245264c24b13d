//! The sessions of this node: which brokers speak over which of its connections.

use super::by_broker::{BrokerMap, Keyed};
use super::clock::Running;
use super::report::{Cause, Change, End, Full, Word};
use super::{ClosedBy, Heard, SessionId, Strength};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;
use storage::Position;
use storage::route_info::BrokerKey;

/// How many (connection, broker) pairs a node follows. Brokers beyond are heard, but their sessions are not followed,
/// so that they leave by their timeout only.
pub(super) const SESSION_PAIRS_MAX: usize = 65_536;

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
    pairs: usize,
    refused: u64,
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
    heard: Running,
    word: Option<LeaderWord>,
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
        Self { strong: 0, weak: 0, over: BTreeMap::new(), stands_for, heard, word: None }
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
    pub(super) fn new(keyed: Keyed) -> Self {
        Self { brokers: BrokerMap::with_hasher(keyed), ..Self::default() }
    }

    /// A broker was heard on a connection; after a REGISTER, `incarnation` is what this node's table has. Gives the change when a session opened or became strong.
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
        if had.is_none() && self.pairs >= SESSION_PAIRS_MAX {
            self.refused += 1;
            return None;
        }
        if let Some(here) = here {
            here.heard = at;
            here.stands_for = here.stands_for.max(incarnation);
            if what == Heard::Register {
                here.word = None;
            }
        }
        if had >= Some(wanted) {
            return None;
        }
        let here = self.brokers.entry(broker.clone()).or_insert_with(|| Here::new(at, incarnation));
        here.over.insert(session, wanted);
        match had {
            Some(had) => *here.count(had) -= 1,
            None => self.pairs += 1,
        }
        *here.count(wanted) += 1;
        let strength = here.strength();
        self.connections.entry(session).or_default().insert(broker.clone());
        self.ended.remove(broker);
        Some(Change { broker: broker.clone(), strength, cause: Cause::Opened })
    }

    /// A connection is over. Gives the changes, one for each broker that spoke over it and whose end matters.
    pub(super) fn closed(&mut self, at: Running, session: SessionId, by: ClosedBy) -> Vec<Change> {
        let mut changes = Vec::new();
        for broker in self.connections.remove(&session).unwrap_or_default() {
            self.pairs -= 1;
            let Some(here) = self.brokers.get_mut(&broker) else { continue };
            let Some(strength) = here.over.remove(&session) else { continue };
            *here.count(strength) -= 1;
            let (left, last_strong) = (here.strength(), strength == Strength::Strong && here.strong == 0);
            let stood_for = here.stands_for.filter(|_| last_strong);
            if left.is_none() {
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

    /// Numbers an end and keeps it for full reports. What an earlier end said of the last strong session stays said.
    fn end(&mut self, at: Running, broker: &BrokerKey, last_strong: Option<Position>) -> End {
        self.ends += 1;
        let end = End { number: self.ends, last_strong };
        let said = self.ended.get(broker).and_then(|(kept, _)| kept.last_strong);
        let kept = End { number: self.ends, last_strong: last_strong.max(said) };
        self.ended.insert(broker.clone(), (kept, at));
        end
    }

    /// Everything, for a full report.
    pub(super) fn full(&self, now: Running) -> Full {
        // Sorted, since a hash map's order follows from more than what is in it.
        let brokers: BTreeMap<_, _> = self.brokers.iter().collect();
        let sessions = brokers.into_iter().filter_map(|(broker, here)| {
            let age = now.saturating_sub(here.heard).as_millis();
            Some((broker.clone(), here.strength()?, u64::try_from(age).unwrap_or(u64::MAX)))
        });
        let ended = self.ended.iter().map(|(broker, (end, _))| (broker.clone(), *end));
        Full { sessions: sessions.collect(), ended: ended.collect() }
    }

    /// Forgets older ends that no longer matter: those that `keep` does not want.
    pub(super) fn retain_ends(&mut self, now: Running, keep: impl Fn(&BrokerKey) -> bool) {
        self.ended.retain(|broker, (_, at)| now < *at + ENDS_KEPT_FOR || keep(broker));
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

    /// Sessions that were not followed.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }
}
