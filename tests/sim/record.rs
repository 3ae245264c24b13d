//! What happened in a run, which no process inside of it knows as a whole: what nodes applied, how brokers really are,
//! which answers clients got. The invariants are asked at each event; the first violation ends the run.

use crate::dice::Dice;
use crate::host::{Clock, Moment};
use crate::identity::Identity;
use crate::invariants::acknowledged::Acknowledged;
use crate::invariants::dead_leave::DeadLeave;
use crate::invariants::former_leader::FormerLeader;
use crate::invariants::living_stay::LivingStay;
use crate::invariants::notices::Notices;
use crate::invariants::one_history::OneHistory;
use crate::invariants::registered_is_known::RegisteredIsKnown;
use crate::invariants::routes::{Ask, Routes};
use crate::network::Network;
use crate::reachability::Reachability;
use raft::{AppliedEntry, NodeId};
use raft_namesrv::min_broker_id::MinBrokerIdNotice;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use storage::command::Cause;
use storage::outcome::{Event, RemovedBy};
use storage::route_info::BrokerKey;
use storage::{Command, LogId, RouteInfo, Vote};
use tokio::sync::broadcast::error::RecvError;

/// A broker that left the tables by a leader's decision, when a node was first seen to have applied that.
#[derive(Debug, Clone)]
pub(crate) struct Removed {
    pub(crate) at: Moment,
    pub(crate) key: BrokerKey,
    pub(crate) cause: Cause,
}

pub(crate) struct Record(Mutex<Seen>);

#[derive(Default)]
pub(crate) struct Seen {
    /// The simulation has come so far.
    pub(crate) now: Moment,
    pub(crate) reachability: Reachability,
    pub(crate) history: OneHistory,
    pub(crate) former: FormerLeader,
    pub(crate) living: LivingStay,
    pub(crate) dead: DeadLeave,
    pub(crate) known: RegisteredIsKnown,
    pub(crate) acknowledged: Acknowledged,
    pub(crate) notices: Notices,
    pub(crate) routes: Routes,
    /// Brokers in the tables of nodes that run.
    pub(crate) present: BTreeMap<NodeId, BTreeSet<BrokerKey>>,
    /// Entries whose removals are judged already.
    judged: u64,
    pub(crate) removals: u64,
    pub(crate) applied: u64,
    /// Everything that was applied, with node and time, as one number.
    pub(crate) trace: u64,
    /// Look-ups that must not have been answered if the node was cut off, when, and what to say then.
    suspects: Vec<(Moment, NodeId, String)>,
    violation: Option<String>,
    /// Print what happens.
    pub(crate) verbose: bool,
}

impl Record {
    pub(crate) fn new(verbose: bool) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Seen { verbose, ..Seen::default() })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap()
    }

    pub(crate) fn violation(&self, text: String) {
        self.lock().violated(Err(text));
    }

    pub(crate) fn take_violation(&self) -> Option<String> {
        self.lock().violation.take()
    }

    pub(crate) fn appended(&self, id: LogId, commands: Vec<Command>) {
        self.lock().former.appended(id, commands);
    }

    pub(crate) fn voted(&self, node: NodeId, vote: Vote) {
        let mut seen = self.lock();
        let verdict = seen.former.voted(node, vote);
        seen.violated(verdict);
        let now = seen.now;
        seen.notices.voted(now, node, vote);
        if vote.committed && vote.node == node {
            seen.reachability.elected(now, vote.term, node);
        }
    }

    pub(crate) fn process_started(&self, now: Moment, node: NodeId) {
        let mut seen = self.lock();
        let newest = seen.judged;
        seen.reachability.started(now, node);
        seen.notices.started(node, newest);
        seen.routes.started(now, node);
        if seen.routes.readiness.recovery_wait.is_some() {
            // It may show what is old.
            seen.acknowledged.started(node);
        }
    }

    pub(crate) fn process_ended(&self, node: NodeId) {
        let mut seen = self.lock();
        let now = seen.now;
        seen.reachability.ended(now, node);
        seen.present.remove(&node);
    }

    /// Watches a node apply, as long as its process lives.
    pub(crate) async fn follow(&self, id: NodeId, node: raft::Node, clock: Clock, network: &Network) {
        let mut entries = node.entries();
        self.lock().table(clock.now(), id, &node.table());
        loop {
            match entries.recv().await {
                Ok(entry) => {
                    let mut seen = self.lock();
                    seen.entry(clock.now(), id, &entry, network);
                    seen.table(clock.now(), id, &node.table());
                    seen.passed(clock.now(), id, &entry);
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }
}

impl Seen {
    pub(crate) fn violated(&mut self, verdict: Result<(), String>) {
        if let Err(text) = verdict {
            self.violation.get_or_insert(text);
        }
    }

    pub(crate) fn say(&self, now: Moment, text: impl FnOnce() -> String) {
        if self.verbose {
            println!("{:>9.3} {}", now.as_secs_f64(), text());
        }
    }

    /// A line of the trace.
    pub(crate) fn note(&mut self, what: &str, number: u64) {
        self.trace = Dice::of(self.trace, what, number).next();
    }

    fn entry(&mut self, now: Moment, node: NodeId, entry: &AppliedEntry, network: &Network) {
        self.applied += 1;
        self.note("applied", node << 56 ^ entry.id.index << 32 ^ entry.id.term << 24);
        self.note("at", u64::try_from(now.as_micros()).unwrap());
        self.note("events", entry.events.len() as u64);
        // A snapshot does not tell what happened; that its tables are right is judged elsewhere.
        if !entry.replaced {
            let verdict = self.history.applied(node, entry);
            self.violated(verdict);
        }
        let removed: Vec<Removed> = removals(now, entry).collect();
        let verdict = self.former.applied(entry.id, &removed);
        self.violated(verdict);
        if entry.id.index <= self.judged {
            return;
        }
        self.judged = entry.id.index;
        self.notices.applied(now, entry);
        for removed in removed {
            self.removals += 1;
            if matches!(removed.cause, Cause::Expired { .. }) {
                self.known.expired(now, &removed.key);
            }
            self.say(now, || format!("{} removed at node {node}: {:?}", removed.key.address, removed.cause));
            // Without a leader of that term another invariant is violated.
            if let Some(leader) = self.former.leader(entry.id.term) {
                let verdict =
                    self.living.removed(&removed, leader, &self.reachability, |place| network.ended(place));
                self.violated(verdict);
            }
        }
    }

    /// The tables of a node, whenever they may have changed.
    fn table(&mut self, now: Moment, node: NodeId, table: &RouteInfo) {
        let verdict = self.history.table(node, table);
        self.violated(verdict);
        let lives: BTreeSet<_> = table.live_brokers().map(|(key, _)| key.clone()).collect();
        let left = self.known.table(now, table.revision().map_or(0, |id| id.index), &lives);
        left.iter().for_each(|key| self.routes.left(key));
        let verdict = self.notices.table(table);
        self.violated(verdict);
        let before = self.present.insert(node, lives).unwrap_or_default();
        for key in self.present[&node].difference(&before) {
            self.dead.leases.registered(key);
        }
        for key in before.difference(&self.present[&node]) {
            self.known.left(now, node, key);
            self.routes.left_node(node, key);
        }
    }

    /// Tables of several entries show at once: a broker that came with one may have gone with the next.
    fn passed(&mut self, now: Moment, node: NodeId, entry: &AppliedEntry) {
        for event in &entry.events {
            let Event::BrokerRegistered { cluster, address, .. } = event else { continue };
            let key = BrokerKey { cluster: cluster.clone(), address: address.clone() };
            self.dead.leases.registered(&key);
            if !self.has(node, &key) && !self.known.has(&key) {
                self.known.passed(now, node, &key);
            }
        }
    }

    /// A node handed a notice out.
    pub(crate) fn noticed(&mut self, now: Moment, node: NodeId, notice: MinBrokerIdNotice) {
        self.say(now, || format!("node {node} tells of {notice:?}"));
        self.note("notice", notice.at.index);
        let verdict = self.notices.handed(now, node, notice);
        self.violated(verdict);
    }

    /// A registration was answered with success.
    pub(crate) fn registered(&mut self, now: Moment, node: NodeId, broker: &Identity) {
        if broker.is_master() && self.known.has(&broker.key) {
            let here = self.has(node, &broker.key);
            self.routes.acknowledged(now, node, &broker.key, &broker.name, here);
        }
    }

    /// A look-up was answered.
    pub(crate) fn looked_up(&mut self, now: Moment, ask: &Ask, code: i32, body: &[u8]) {
        let (alone, here) = (self.reachability.alone_since(now, ask.node), self.has(ask.node, &ask.master));
        if let Some(text) = self.routes.too_old(now, ask, code, alone) {
            self.suspects.push((now, ask.node, text));
        }
        let verdict = self.routes.answered(now, ask, (code, body), here);
        self.violated(verdict);
    }

    /// Nodes that seemed to be cut off when they answered, and were, as the look after it shows.
    pub(crate) fn look_at_suspects(&mut self) {
        for (at, node, text) in std::mem::take(&mut self.suspects) {
            if self.reachability.is_alone_at(at, node) {
                self.violated(Err(text));
            }
        }
    }

    pub(crate) fn has(&self, node: NodeId, key: &BrokerKey) -> bool {
        self.present.get(&node).is_some_and(|present| present.contains(key))
    }
}

fn removals(at: Moment, entry: &AppliedEntry) -> impl Iterator<Item = Removed> {
    entry.events.iter().filter_map(move |event| match event {
        Event::BrokerRemoved { cluster, address, cause: RemovedBy::Removal(cause), .. }
            if *cause != Cause::Asked =>
        {
            let key = BrokerKey { cluster: cluster.clone(), address: address.clone() };
            Some(Removed { at, key, cause: *cause })
        }
        _ => None,
    })
}
