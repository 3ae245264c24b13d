//! What the leader decides: which brokers are gone.

use super::clock::{Running, millis};
use super::core::{Core, Leader};
use super::guard::Candidate;
use super::marks::{Mark, Round};
use super::removals::ProposalEnd;
use super::report::Ask;
use super::views::REACHABLE_FOR;
use raft::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;
use storage::Position;
use storage::command::{Cause, Removal};
use storage::route_info::BrokerKey;
use tokio::time::Instant;

/// Brokers in one removal entry; the rest follows in the next.
pub(super) const REMOVALS_MAX: usize = 4_096;
/// A question that got no answer is repeated after this time.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// What a leader must do now.
#[derive(Debug, Default)]
pub(super) struct Decision {
    /// One entry to propose in the leader's term; tell [`Core::proposed`] how it ended.
    pub(super) removal: Option<Batch>,
    /// The question and whom to ask.
    pub(super) ask: Option<(Ask, Vec<NodeId>)>,
}

/// Brokers to remove together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) number: u64,
    pub(super) term: u64,
    pub(super) brokers: Vec<Removal>,
}

impl Core {
    /// Decides, as the leader that it is at this moment. What is decided follows from what is known now, so a
    /// decision whose proposal failed is made again.
    pub(super) fn decide(&mut self, now: Instant, leader: &Leader<'_>) -> Decision {
        let now = self.clock.advance(now);
        if self.removals.begin_term(leader.term) {
            // A new leader asks anew.
            self.marks.forget_rounds();
            self.leads_since = now;
        }
        if !self.quorum {
            return Decision::default();
        }
        let (mut gone, ask) = self.disconnected(now, leader);
        let mut decision = Decision { removal: None, ask: ask.map(|ask| (ask, self.views.to_ask())) };
        if !self.removals.may_propose(now) {
            return decision;
        }
        gone.extend(self.expired(now, leader));
        let candidates: Vec<_> = gone.iter().filter_map(|(key, at)| self.candidate(key, *at)).collect();
        if candidates.is_empty() {
            return decision;
        }
        let population = self.guarded(self.ledger.keys());
        let under_way = self.guarded(self.removals.brokers());
        let (mut go, held) = self.guard.admit(now, population, under_way, candidates);
        for candidate in held.iter().filter(|candidate| candidate.due <= now) {
            let until = self.guard.kept_until(candidate);
            self.ledger.postpone(&candidate.key, until);
        }
        go.truncate(REMOVALS_MAX);
        if go.is_empty() {
            return decision;
        }
        let brokers: Vec<_> = go.iter().filter_map(|gone| self.removal(now, gone)).collect();
        let under_way = go.into_iter().filter_map(|c| gone.get(&c.key).map(|at| (c.key, *at)));
        let number = self.removals.propose(under_way);
        decision.removal = Some(Batch { number, term: leader.term, brokers });
        decision
    }

    /// How many of these brokers of the table count for the guard.
    pub(super) fn guarded<'a>(&self, brokers: impl IntoIterator<Item = &'a BrokerKey>) -> usize {
        let counts = |key: &&BrokerKey| self.ledger.spoke(key).is_some_and(|spoke| self.guard.counts(spoke));
        brokers.into_iter().filter(counts).count()
    }

    /// How a proposal of [`Core::decide`] ended.
    pub(super) fn proposed(&mut self, now: Instant, batch: u64, end: ProposalEnd) {
        let now = self.clock.advance(now);
        if end != ProposalEnd::Applied {
            self.counters.removals_retried += 1;
        }
        self.removals.ended(now, batch, end);
        self.wakes.decider = true;
    }

    /// Whether a proposal of unknown outcome waits to learn where this leader's log ends.
    pub(super) fn wants_last_index(&mut self, now: Instant) -> bool {
        let now = self.clock.advance(now);
        self.removals.wants_last_index(now)
    }

    /// Where this leader's log ends.
    pub(super) fn last_index(&mut self, now: Instant, index: u64) {
        let now = self.clock.advance(now);
        self.removals.last_index(now, index);
        self.removals.applied(self.followed);
    }

    /// Brokers silent for longer than their timeout, as of the registration that the ledger follows.
    fn expired(&mut self, now: Running, leader: &Leader<'_>) -> Vec<(BrokerKey, Position)> {
        let mut expired = Vec::new();
        for key in self.ledger.expired(now) {
            let Some((at, timeout)) = self.ledger.get(&key).map(|entry| (entry.incarnation, entry.timeout))
            else {
                continue;
            };
            if let Some(from) = self.cut_off_from(&key).filter(|from| now < *from + timeout) {
                self.ledger.postpone(&key, from + timeout);
                continue;
            }
            if (leader.incarnation)(&key) == Some(at) && !self.removals.contains(leader.term, &key, at) {
                expired.push((key, at));
            }
        }
        expired
    }

    /// When the silence of a broker begins that may be heard by a node which is cut off: then. While another node led, that
    /// one may have heard it through there for longer; but not when the broker has been heard elsewhere since.
    fn cut_off_from(&self, key: &BrokerKey) -> Option<Running> {
        let heard = self.ledger.last_heard(key)?;
        let begins = |lost: Running| if heard > lost { lost } else { lost.max(self.leads_since) };
        self.views.cut_off_from(key).map(begins)
    }

    /// Marked brokers without a session anywhere reachable whose question is answered, and the question to ask for
    /// the others.
    fn disconnected(
        &mut self,
        now: Running,
        leader: &Leader<'_>,
    ) -> (BTreeMap<BrokerKey, Position>, Option<Ask>) {
        let mut gone = BTreeMap::new();
        let mut ask = None;
        let Self { marks, views, removals, asks, process, guard, ledger, .. } = self;
        marks.retain(|key, mark| {
            match (leader.incarnation)(key) {
                // Gone, or the table here is not yet as far as where the session ended.
                None => return leader.applied < mark.incarnation.index,
                Some(at) if at > mark.incarnation => return false,
                Some(at) if at < mark.incarnation || removals.contains(leader.term, key, at) => return true,
                Some(_) => {}
            }
            if views.strongest(key).is_some() {
                mark.round = None;
                return true;
            }
            // Those that the guard keeps go by their time, whatever the others say.
            if ledger.spoke(key).is_some_and(|spoke| !guard.counts(spoke)) {
                return true;
            }
            // So does one that may be connected where nobody follows it.
            if ledger.may_be_unfollowed(key, now) {
                return true;
            }
            let round = question(mark, now, *process, asks, &mut ask);
            if views.answered(now, round.number) || now >= round.begun + REACHABLE_FOR {
                gone.insert(key.clone(), mark.incarnation);
            }
            true
        });
        (gone, ask)
    }

    /// `None` while the ledger does not yet follow the registration that the leader's table has.
    fn candidate(&self, key: &BrokerKey, at: Position) -> Option<Candidate> {
        self.ledger.get(key).filter(|entry| entry.incarnation == at)?;
        let (heard, due) = (self.ledger.last_heard(key)?, self.ledger.due(key)?);
        Some(Candidate { key: key.clone(), spoke: self.ledger.spoke(key)?, heard, due })
    }

    fn removal(&self, now: Running, gone: &Candidate) -> Option<Removal> {
        let entry = self.ledger.get(&gone.key)?;
        let idle_ms = millis(now.saturating_sub(gone.heard));
        let cause = if gone.due <= now { Cause::Expired { idle_ms } } else { Cause::Disconnected };
        Some(Removal {
            cluster: gone.key.cluster.clone(),
            broker: entry.broker.clone(),
            address: gone.key.address.clone(),
            incarnation: Some(entry.incarnation),
            cause,
        })
    }
}

/// The question that a mark waits for. A new one is shared by all marks of the moment; one without an answer is
/// repeated under a new number, while answers to the old one still count.
fn question(mark: &mut Mark, now: Running, process: u64, asks: &mut u64, ask: &mut Option<Ask>) -> Round {
    if let Some(round) = mark.round.filter(|round| now < round.sent + ASK_AGAIN_AFTER) {
        return round;
    }
    let ask = ask.get_or_insert_with(|| {
        *asks += 1;
        Ask { process, number: *asks }
    });
    let round = mark.round.get_or_insert(Round { number: ask.number, begun: now, sent: now });
    round.sent = now;
    *round
}
