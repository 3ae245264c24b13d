//! What a node shows of its ledger.

use super::clock::Running;
use super::core::Core;
use super::{BrokerStatus, Counters, LivenessStatus, PeerStatus, Totals};
use std::time::Duration;
use storage::route_info::BrokerKey;
use tokio::time::Instant;

impl Core {
    /// How long a broker of the table has been silent.
    pub(super) fn silence(&mut self, now: Instant, broker: &BrokerKey) -> Option<Duration> {
        let now = self.clock.advance(now);
        if self.learner {
            return None;
        }
        self.ledger.last_heard(broker).map(|heard| now.saturating_sub(heard))
    }

    pub(super) fn status(&mut self, now: Instant) -> LivenessStatus {
        let Totals { guard, counters } = self.totals(now);
        let now = self.clock.advance(now);
        let mut brokers: Vec<_> = self
            .ledger
            .keys()
            .filter_map(|key| {
                let (entry, heard) = (self.ledger.get(key)?, self.ledger.last_heard(key)?);
                Some(BrokerStatus {
                    key: key.clone(),
                    broker: entry.broker.clone(),
                    silence: now.saturating_sub(heard),
                    timeout: entry.timeout,
                    sessions: self.views.sessions_of(key),
                    disconnected: self.marks.has(key),
                    held: self.is_held(now, key),
                })
            })
            .collect();
        brokers.sort_unstable_by(|a: &BrokerStatus, b| a.key.cmp(&b.key));
        let peers = self.views.peers().map(|(node, reachable, spoke, sessions)| PeerStatus {
            node,
            reachable,
            since_spoke: spoke.map(|spoke| now.saturating_sub(spoke)),
            sessions,
        });
        LivenessStatus { brokers, peers: peers.collect(), guard, counters }
    }

    /// Guard and counters. Looks at the brokers only while the guard holds some.
    pub(super) fn totals(&mut self, now: Instant) -> Totals {
        let now = self.clock.advance(now);
        let held = match self.guard.since() {
            Some(_) => self.ledger.keys().filter(|key| self.is_held(now, key)).count(),
            None => 0,
        };
        let counters = Counters {
            pauses: self.clock.pauses(),
            sessions_refused: self.sessions.refused(),
            ..self.counters
        };
        Totals { guard: self.guard.status(now, held), counters }
    }

    /// Whether a broker would be removed, and the guard keeps it.
    fn is_held(&self, now: Running, key: &BrokerKey) -> bool {
        let (Some(spoke), Some(entry)) = (self.ledger.spoke(key), self.ledger.get(key)) else { return false };
        let silent = || self.ledger.last_heard(key).is_some_and(|heard| heard + entry.timeout <= now);
        !self.guard.counts(spoke) && (self.marks.has(key) || silent())
    }
}
