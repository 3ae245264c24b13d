//! All of liveness as one plain structure: every input comes with the moment at which it came, nothing here waits,
//! reads a clock or talks to anyone.

use super::by_broker::Keyed;
use super::clock::{Running, RunningClock};
use super::confirmations::{Confirmations, final_word};
use super::guard::Guard;
use super::inheritance::Inheritance;
use super::ledger::Ledger;
use super::marks::Marks;
use super::removals::Removals;
use super::report::Word;
use super::sessions::{LeaderWord, Sessions};
use super::stream::Stream;
use super::telling::UNTOLD_MAX;
use super::views::{Effect, Views};
use super::{Counters, Known, LivenessOptions, SessionId, Strength};
use raft::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;
use storage::Position;
use storage::route_info::{BrokerKey, BrokerLiveInfo};
use tokio::time::Instant;

/// Between two looks at what needs no hurry.
const REVIEW_EVERY: Duration = Duration::from_secs(1);

/// What a node with a valid lease and an applied entry of its own term knows. To ensure correctness, it must be taken
/// while the core is locked: a removal's end is noted after it is visible in the table.
pub(super) struct Leader<'a> {
    /// Its term.
    pub(super) term: u64,
    /// Its applied index.
    pub(super) applied: u64,
    /// Incarnation of a broker in the table of that index.
    pub(super) incarnation: &'a dyn Fn(&BrokerKey) -> Option<Position>,
}

/// Brokers that left in an entry.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Left {
    /// By expiry.
    pub(super) expired: usize,
    /// By disconnect.
    pub(super) disconnected: usize,
    /// Those of both that counted for the guard.
    pub(super) guarded: usize,
}

/// Whom the caller must wake.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Wakes {
    /// The senders of reports.
    pub(super) senders: bool,
    /// Whoever decides.
    pub(super) decider: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) node_id: NodeId,
    /// Whether this node is known to be a learner.
    pub(super) learner: bool,
    pub(super) process: u64,
    pub(super) clock: RunningClock,
    pub(super) sessions: Sessions,
    pub(super) streams: BTreeMap<NodeId, Stream>,
    pub(super) views: Views,
    pub(super) ledger: Ledger,
    pub(super) marks: Marks,
    pub(super) guard: Guard,
    pub(super) removals: Removals,
    pub(super) confirmations: Confirmations,
    pub(super) counters: Counters,
    pub(super) wakes: Wakes,
    /// Questions asked so far.
    pub(super) asks: u64,
    /// Words of older terms are dropped.
    pub(super) newest_term: u64,
    /// The leader, when known.
    pub(super) leader: Option<NodeId>,
    /// Index up to which the ledger follows the table.
    pub(super) followed: u64,
    /// The ledger has every broker of the table. Not so while a node that starts applies its log again.
    pub(super) complete: bool,
    pub(super) inheritance: Inheritance,
    /// A majority of the voters is heard. Without it nothing is decided.
    pub(super) quorum: bool,
    /// Since when it may have been without.
    pub(super) without_quorum: Running,
    /// When this process had lost it and found it again.
    pub(super) quorum_again: Running,
    /// When this node last began to lead.
    pub(super) leads_since: Running,
    reviewed: Running,
}

impl Core {
    pub(super) fn new(options: &LivenessOptions, process: u64, now: Instant) -> Self {
        let keyed = Keyed(process);
        Self {
            node_id: options.node_id,
            learner: false,
            process,
            clock: RunningClock::new(now),
            sessions: Sessions::new(keyed, options.session_pairs_max),
            streams: BTreeMap::new(),
            views: Views::new(options.node_id, process),
            ledger: Ledger::new(keyed),
            marks: Marks::default(),
            guard: Guard::new(options),
            removals: Removals::default(),
            confirmations: Confirmations::default(),
            counters: Counters::default(),
            wakes: Wakes::default(),
            asks: 0,
            newest_term: 0,
            leader: None,
            followed: 0,
            complete: false,
            inheritance: Inheritance::default(),
            quorum: false,
            without_quorum: Running::ZERO,
            quorum_again: Running::ZERO,
            leads_since: Running::ZERO,
            reviewed: Running::ZERO,
        }
    }

    /// The members, `(id, votes)`, this node among them when it is one.
    pub(super) fn members(&mut self, now: Instant, members: &[(NodeId, bool)]) {
        let now = self.clock.advance(now);
        let learns = members.contains(&(self.node_id, false));
        let learned = std::mem::replace(&mut self.learner, learns);
        if self.learner {
            self.guard.forget();
        }
        let receives = |node: &NodeId| *node != self.node_id && members.contains(&(*node, true));
        self.streams.retain(|node, _| receives(node));
        for (node, _) in members.iter().filter(|(node, _)| receives(node)) {
            self.streams.entry(*node).or_insert_with(|| Stream::new(Keyed(self.process)));
        }
        let mut effects = Vec::new();
        let voters = |views: &Views| views.other_voters().map(|(node, _)| node).collect::<Vec<_>>();
        let before = voters(&self.views);
        self.views.members(now, members, &mut effects);
        // What a learner was told may be hours old when it gets a vote.
        if voters(&self.views) != before || learned != learns {
            self.ask_silences_again();
        }
        self.take(now, effects);
        self.look_for_quorum(now);
        self.wakes.senders = true;
    }

    /// Who leads changed.
    pub(super) fn leadership(&mut self, term: u64, leader: Option<NodeId>) {
        self.newest_term = self.newest_term.max(term);
        self.leader = leader;
        self.wakes = Wakes { senders: true, decider: true };
    }

    /// What this leader says of a broker.
    pub(super) fn leader_word(&self, leader: &Leader<'_>, broker: &BrokerKey) -> LeaderWord {
        let word = match (leader.incarnation)(broker) {
            None => Word::Unknown,
            Some(at) if self.removals.contains(leader.term, broker, at) => Word::Removing,
            Some(at) => Word::Known(at),
        };
        LeaderWord { term: leader.term, applied: leader.applied, word }
    }

    /// The last word on a broker: this leader's own, or what the leader said last.
    pub(super) fn last_word(&self, broker: &BrokerKey, leader: Option<&Leader<'_>>) -> Option<Known> {
        let word = match leader {
            Some(leader) => self.leader_word(leader, broker),
            None => self.sessions.word(broker)?,
        };
        Some(final_word(word).unwrap_or(Known::Unknown))
    }

    /// The registration of a broker in this node's table, or that there is none.
    /// `fresh`: it has just been made, not found in this node's own log.
    pub(super) fn follow(
        &mut self,
        now: Instant,
        broker: &BrokerKey,
        live: Option<&BrokerLiveInfo>,
        fresh: bool,
    ) {
        let now = self.clock.advance(now);
        self.ledger.follow(now, broker, live, fresh);
    }

    /// The whole table, when single changes were missed (and at the start).
    pub(super) fn follow_all<'a>(
        &mut self,
        now: Instant,
        lives: impl Iterator<Item = (&'a BrokerKey, &'a BrokerLiveInfo)>,
    ) {
        let now = self.clock.advance(now);
        let mut gone: std::collections::BTreeSet<_> = self.ledger.keys().cloned().collect();
        for (broker, live) in lives {
            gone.remove(broker);
            self.ledger.follow(now, broker, Some(live), false);
        }
        for broker in gone {
            self.ledger.follow(now, &broker, None, false);
        }
    }

    /// Everything up to this index was followed, in which these brokers left.
    pub(super) fn followed(&mut self, now: Instant, index: u64, left: Left) {
        let now = self.clock.advance(now);
        self.followed = self.followed.max(index);
        self.counters.expired += left.expired as u64;
        self.counters.disconnected += left.disconnected as u64;
        // A learner hears few of the brokers, so it could not tell when protection ends.
        if !self.learner && left.guarded > 0 {
            let population = self.guarded(self.ledger.keys());
            self.guard.applied(now, left.guarded, population);
        }
        self.removals.applied(index);
    }

    /// The connections of this node over which a broker speaks.
    pub(super) fn connections_of(&self, broker: &BrokerKey) -> Vec<SessionId> {
        self.sessions.connections_of(broker)
    }

    /// Time goes on. At least every [`super::clock::LATENESS_MAX`], or that counts as a pause.
    pub(super) fn tick(&mut self, now: Instant, leader: Option<&Leader<'_>>) {
        let now = self.clock.advance(now);
        let mut effects = Vec::new();
        self.views.sweep(now, &mut effects);
        self.take(now, effects);
        self.look_for_quorum(now);
        self.tell_words_due(now);
        for broker in self.confirmations.brokers() {
            if let Some(leader) = leader {
                let word = self.leader_word(leader, &broker);
                self.confirmations.word(&broker, word, self.confirmations.ticket());
            }
        }
        if now >= self.reviewed + REVIEW_EVERY {
            self.reviewed = now;
            self.review(now);
        }
    }

    fn review(&mut self, now: Running) {
        let Self { guard, ledger, marks, sessions, followed, complete, .. } = self;
        guard.review(now, |since| {
            !*complete || ledger.keys().any(|key| ledger.spoke(key).is_some_and(|spoke| spoke <= since))
        });
        marks.retain(|key, mark| ledger.get(key).is_some() || mark.incarnation.index > *followed);
        sessions.retain_ends(now, |key| marks.has(key));
    }

    /// How long the guard has been protecting, when it does.
    pub(super) fn protected_for(&mut self, now: Instant) -> Option<Duration> {
        let now = self.clock.advance(now);
        self.guard.since().map(|since| now.saturating_sub(since))
    }

    /// Another node's guard has been protecting for so long.
    pub(super) fn others_protect(&mut self, now: Instant, protected_for: Duration) {
        let now = self.clock.advance(now);
        self.guard.adopt(now, protected_for);
    }

    /// Takes in what reports, changes and silence mean for brokers.
    pub(super) fn take(&mut self, now: Running, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Heard(broker, at) => {
                    self.ledger.heard(&broker, at);
                }
                Effect::Appeared(broker) => {
                    self.ledger.start_anew_for(&broker, now);
                    // A weak one only holds it: it may have opened before the end that marked the broker, told of late.
                    if self.views.strongest(&broker) == Some(Strength::Strong) {
                        self.marks.clear(&broker);
                    }
                }
                Effect::EndedByNode(broker) => self.marks.clear(&broker),
                Effect::NotFollowed(broker) => self.ledger.not_followed(&broker, now),
                Effect::Unsure(broker) => {
                    self.marks.clear(&broker);
                    // It may have been put off for as long as that node would be away.
                    self.ledger.pull_in(&broker);
                }
                Effect::Untold(broker, since) => {
                    // Words wait only behind one that was told.
                    let heard = self.ledger.last_heard(&broker);
                    let may_wait = heard.is_some_and(|heard| heard + UNTOLD_MAX >= since);
                    let since = if may_wait { since.saturating_sub(UNTOLD_MAX) } else { since };
                    self.ledger.excuse(&broker, since, now);
                    self.ask_silences_again();
                }
                Effect::Ended(broker, end) => {
                    self.wakes.decider = true;
                    match end.last_strong {
                        Some(incarnation) => self.last_strong_ended(broker, incarnation),
                        None => self.marks.ask_again(&broker),
                    }
                }
            }
        }
    }

    fn last_strong_ended(&mut self, broker: BrokerKey, incarnation: Position) {
        let mut newest = incarnation;
        if let Some(entry) = self.ledger.get_mut(&broker) {
            newest = entry.ended.map_or(newest, |ended| ended.max(newest));
            entry.ended = Some(newest);
        }
        if self.views.strongest(&broker) != Some(Strength::Strong) {
            self.marks.set(broker, newest);
        }
    }
}
