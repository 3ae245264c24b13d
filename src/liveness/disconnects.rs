//! Brokers whose last strong session was ended by the peer, as the leader keeps them.

use super::clock::Now;
use super::messages::Probe;
use super::nodes::REACHABLE_FOR;
use std::collections::BTreeMap;
use std::time::Duration;
use storage::Position;
use storage::route_info::BrokerKey;

/// A probe without an answer is repeated after this time.
const PROBE_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// A broker that is removed once no session of it is left at any reachable node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pending {
    /// The registration that the session stood for: a newer one is not removed.
    pub(super) incarnation: Position,
    /// In-service time of the last disconnect. A later heartbeat over a strong session settles it.
    since: Duration,
    probe: Option<ProbeRound>,
}

/// A probe of all nodes, repeated until they have answered or [`REACHABLE_FOR`] is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProbeRound {
    number: u64,
    begun: Duration,
    sent: Duration,
}

/// What a pending disconnect comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Not pending any more.
    Drop,
    /// Not to be decided now; the next decision begins with a new probe.
    Hold,
    /// Not to be decided now.
    Keep,
    /// To be removed when the nodes have answered.
    Probe,
}

/// All pending disconnects of a leader.
#[derive(Debug, Default)]
pub(super) struct Disconnects {
    pending: BTreeMap<BrokerKey, Pending>,
    term: u64,
    probes: u64,
}

impl Disconnects {
    /// None yet in this term.
    pub(super) fn new(term: u64) -> Self {
        Self { pending: BTreeMap::new(), term, probes: 0 }
    }

    /// A disconnect, or another one of the same broker: answers must be younger than that.
    pub(super) fn set(&mut self, now: Now, broker: BrokerKey, incarnation: Position) {
        let since = now.in_service;
        let pending = self.pending.entry(broker).or_insert(Pending { incarnation, since, probe: None });
        pending.incarnation = pending.incarnation.max(incarnation);
        (pending.since, pending.probe) = (since, None);
    }

    /// Whether a heartbeat at that in-service time, over a strong session, shows that the broker lives on.
    pub(super) fn is_settled_by(&self, broker: &BrokerKey, heartbeat: Duration) -> bool {
        self.pending.get(broker).is_some_and(|pending| heartbeat > pending.since)
    }

    /// Another session of the broker ended: if it is pending, the nodes are probed again.
    pub(super) fn probe_again(&mut self, broker: &BrokerKey) {
        if let Some(pending) = self.pending.get_mut(broker) {
            pending.probe = None;
        }
    }

    pub(super) fn remove(&mut self, broker: &BrokerKey) {
        self.pending.remove(broker);
    }

    pub(super) fn contains(&self, broker: &BrokerKey) -> bool {
        self.pending.contains_key(broker)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Decides on each pending disconnect. Gives the brokers to remove, and the probe to send: a new one is shared by
    /// all that wait for one; one without an answer is repeated under a new number, while answers to the old one count.
    pub(super) fn decide(
        &mut self,
        now: Now,
        answered: impl Fn(u64) -> bool,
        mut verdict: impl FnMut(&BrokerKey, Position) -> Verdict,
    ) -> (BTreeMap<BrokerKey, Position>, Option<Probe>) {
        let (mut gone, mut to_send) = (BTreeMap::new(), None);
        let Self { pending, term, probes } = self;
        pending.retain(|broker, pending| {
            match verdict(broker, pending.incarnation) {
                Verdict::Drop => return false,
                Verdict::Hold => pending.probe = None,
                Verdict::Keep => {}
                Verdict::Probe => {
                    let round = pending.probe(now.running, || {
                        to_send.get_or_insert_with(|| {
                            *probes += 1;
                            Probe { term: *term, number: *probes }
                        });
                        *probes
                    });
                    if answered(round.number) || now.running >= round.begun + REACHABLE_FOR {
                        gone.insert(broker.clone(), pending.incarnation);
                    }
                }
            }
            true
        });
        (gone, to_send)
    }
}

impl Pending {
    /// The probe that the decision waits for; `send` gives the number of one to be sent now.
    fn probe(&mut self, now: Duration, send: impl FnOnce() -> u64) -> ProbeRound {
        if let Some(round) = self.probe.filter(|round| now < round.sent + PROBE_AGAIN_AFTER) {
            return round;
        }
        let number = send();
        let round = self.probe.get_or_insert(ProbeRound { number, begun: now, sent: now });
        round.sent = now;
        *round
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::key;
    use super::*;

    const AT: Position = Position { index: 5, number: 0 };

    fn now(ms: u64) -> Now {
        Now { running: Duration::from_millis(ms), in_service: Duration::from_millis(ms) }
    }

    #[test]
    fn one_probe_serves_all_and_is_repeated_until_it_is_answered() {
        let mut disconnects = Disconnects::new(7);
        disconnects.set(now(0), key(1), AT);
        disconnects.set(now(0), key(2), AT);
        let unanswered = |_| false;
        let probe = |number| Some(Probe { term: 7, number });
        let all = |_: &BrokerKey, _| Verdict::Probe;
        assert_eq!(disconnects.decide(now(0), unanswered, all), (BTreeMap::new(), probe(1)));
        assert_eq!(disconnects.decide(now(249), unanswered, all), (BTreeMap::new(), None));
        disconnects.probe_again(&key(2));
        assert_eq!(disconnects.decide(now(250), unanswered, all), (BTreeMap::new(), probe(2)));
        let (gone, sent) = disconnects.decide(now(260), |number| number == 1, all);
        assert_eq!((gone, sent), (BTreeMap::from([(key(1), AT)]), None), "an answer to the first one counts");
        let (gone, _) = disconnects.decide(now(1_000), unanswered, all);
        assert_eq!(gone, BTreeMap::from([(key(1), AT)]), "a second is the longest wait");
        let (gone, _) = disconnects.decide(now(1_250), unanswered, all);
        assert_eq!(gone.len(), 2);
    }

    #[test]
    fn a_broker_that_is_held_is_probed_again() {
        let mut disconnects = Disconnects::new(7);
        disconnects.set(now(0), key(1), AT);
        disconnects.decide(now(0), |_| false, |_, _| Verdict::Probe);
        disconnects.decide(now(10), |_| true, |_, _| Verdict::Hold);
        let (gone, sent) = disconnects.decide(now(20), |number| number == 1, |_, _| Verdict::Probe);
        assert_eq!((gone.len(), sent.map(|probe| probe.number)), (0, Some(2)));
        assert!(!disconnects.is_settled_by(&key(1), now(0).in_service), "sent before the end");
        assert!(disconnects.is_settled_by(&key(1), now(1).in_service));
        disconnects.decide(now(30), |_| true, |_, _| Verdict::Drop);
        assert!(disconnects.is_empty() && !disconnects.contains(&key(1)));
    }
}
