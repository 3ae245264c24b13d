//! A small cluster for the rule tests: trackers of all nodes, one log, messages passed by hand in steps of 50 ms. All of it
//! is plain code with explicit time, and everything follows from the calls.

use super::super::clock::LATENESS_MAX;
use super::super::leader::Leader;
use super::super::messages::{Message, Reply};
use super::super::removals::{Applied, ProposalEnd};
use super::super::tracker::Tracker;
use super::super::{ClosedBy, LivenessOptions, SessionId, Strength};
use super::ms;
use raft::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use storage::command::{Cause, Origin, Removal, RemoveBrokers, SetEvictionGuard};
use storage::outcome::{Event, RemovedBy};
use storage::route_info::BrokerKey;
use storage::{Change, Command, LogId, RouteInfo};
use tokio::time::Instant;

pub(super) const NODES: [NodeId; 3] = [1, 2, 3];
/// Between two steps.
pub(super) const STEP: Duration = ms(50);
const _: () = assert!(STEP.as_millis() < LATENESS_MAX.as_millis(), "a step is no pause");

pub(super) struct Node {
    pub(super) tracker: Tracker,
    pub(super) table: RouteInfo,
    applied: usize,
    pub(super) up: bool,
    /// Its process does not run.
    pub(super) paused: bool,
    leadership: (u64, Option<NodeId>),
}

/// An applied entry: the table after it.
struct Entry {
    meaning: Applied,
    table: RouteInfo,
}

/// What becomes of a proposed removal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Proposals {
    Applied,
    Refused,
    /// Nothing is known of it yet: it waits in [`World::pending`].
    Pending,
}

/// See the module's documentation.
pub(super) struct World {
    pub(super) now: Instant,
    pub(super) nodes: BTreeMap<NodeId, Node>,
    pub(super) term: u64,
    pub(super) leader: Option<NodeId>,
    /// The leader has lost its quorum lease, although it reaches the others.
    pub(super) lease_lost: bool,
    /// Pairs of nodes whose link carries nothing; the lower id comes first.
    pub(super) cut: BTreeSet<(NodeId, NodeId)>,
    /// The newest table.
    pub(super) table: RouteInfo,
    log: Vec<Entry>,
    pub(super) proposals: Proposals,
    pub(super) pending: Vec<Vec<Removal>>,
    /// How many proposals of removals were made.
    pub(super) proposed: usize,
    /// Brokers that were removed by expiry or disconnect.
    pub(super) removed: Vec<(BrokerKey, Cause)>,
    pub(super) sessions: BTreeMap<(usize, NodeId), SessionId>,
    /// Brokers that send a heartbeat each second to a node.
    pub(super) beats: BTreeSet<(usize, NodeId)>,
    /// Connections and processes so far.
    pub(super) numbers: u64,
    steps: u64,
    options: LivenessOptions,
    pub(super) bytes_sent: usize,
}

impl World {
    /// Three voters, led by node 1.
    pub(super) fn new() -> Self {
        Self::with(LivenessOptions::new(0))
    }

    pub(super) fn with(options: LivenessOptions) -> Self {
        let mut world = Self {
            now: Instant::now(),
            nodes: BTreeMap::new(),
            term: 0,
            leader: None,
            lease_lost: false,
            cut: BTreeSet::new(),
            table: RouteInfo::default(),
            log: Vec::new(),
            proposals: Proposals::Applied,
            pending: Vec::new(),
            proposed: 0,
            removed: Vec::new(),
            sessions: BTreeMap::new(),
            beats: BTreeSet::new(),
            numbers: 0,
            steps: 0,
            options,
            bytes_sent: 0,
        };
        NODES.into_iter().for_each(|node| world.start(node));
        world.elect(1);
        world.run(ms(1_000));
        world
    }

    /// Starts a node's process, again after [`World::kill`].
    pub(super) fn start(&mut self, id: NodeId) {
        self.numbers += 1;
        let options = LivenessOptions { node_id: id, ..self.options.clone() };
        let mut tracker = Tracker::new(&options, self.numbers, self.now);
        let (table, applied) =
            self.nodes.remove(&id).map_or_else(Default::default, |before| (before.table, before.applied));
        tracker.set_members(self.now, &NODES.map(|node| (node, true)));
        tracker.follow_all(self.now, &table);
        let node = Node { tracker, table, applied, up: true, paused: false, leadership: (0, None) };
        self.nodes.insert(id, node);
    }

    /// A node's process dies, and its connections with it.
    pub(super) fn kill(&mut self, id: NodeId) {
        self.nodes.get_mut(&id).unwrap().up = false;
        self.sessions.retain(|(_, node), _| *node != id);
    }

    pub(super) fn tracker(&mut self, id: NodeId) -> &mut Tracker {
        &mut self.nodes.get_mut(&id).unwrap().tracker
    }

    fn runs(&self, id: NodeId) -> bool {
        self.nodes[&id].up && !self.nodes[&id].paused
    }

    fn reaches(&self, from: NodeId, to: NodeId) -> bool {
        self.runs(from) && self.runs(to) && !self.cut.contains(&(from.min(to), from.max(to)))
    }

    pub(super) fn cut_off(&mut self, id: NodeId) {
        self.cut.extend(NODES.into_iter().filter(|to| *to != id).map(|to| (id.min(to), id.max(to))));
    }

    // Consensus.

    /// A node is elected in a new term, and has applied an entry of it.
    pub(super) fn elect(&mut self, id: NodeId) {
        self.term += 1;
        (self.leader, self.lease_lost) = (Some(id), false);
        self.commit(&[]);
    }

    fn has_lease(&self, id: NodeId) -> bool {
        let reached = NODES.into_iter().filter(|to| self.reaches(id, *to)).count();
        self.leader == Some(id) && !self.lease_lost && reached * 2 > NODES.len()
    }

    pub(super) fn with_leader<R>(
        &mut self,
        id: NodeId,
        act: impl FnOnce(&mut Tracker, Instant, Option<&Leader<'_>>) -> R,
    ) -> R {
        let (now, term, leads) = (self.now, self.term, self.has_lease(id));
        let Node { tracker, table, .. } = self.nodes.get_mut(&id).unwrap();
        let leader = Leader { term, table };
        if leads {
            tracker.lead(now, &leader);
        }
        act(tracker, now, leads.then_some(&leader))
    }

    pub(super) fn commit(&mut self, changes: &[Change]) {
        let command = |change: &Change| Command { origin: Origin::default(), change: change.clone() };
        let commands: Vec<_> = changes.iter().map(command).collect();
        let id = LogId { term: self.term, index: self.last_index() + 1 };
        let mut meaning = Applied::default();
        for event in self.table.apply_entry(id, &commands).events {
            match event {
                Event::BrokerRegistered { cluster, address, .. } => {
                    meaning.touched.insert(BrokerKey { cluster, address });
                }
                Event::BrokerRemoved { cluster, address, cause: RemovedBy::Removal(cause), .. } => {
                    let broker = BrokerKey { cluster, address };
                    meaning.touched.insert(broker.clone());
                    let expired = matches!(cause, Cause::Expired { .. });
                    if expired { &mut meaning.expired } else { &mut meaning.disconnected }
                        .push(broker.clone());
                    self.removed.push((broker, cause));
                }
                Event::EvictionGuardChanged { active } => meaning.guard = Some(active),
                _ => {}
            }
        }
        self.log.push(Entry { meaning, table: self.table.clone() });
        self.follow_leader();
    }

    pub(super) fn last_index(&self) -> u64 {
        self.log.len() as u64
    }

    /// The nodes that the leader reaches learn of it and apply its entries.
    fn follow_leader(&mut self) {
        let (term, leader) = (self.term, self.leader);
        for id in NODES {
            if !self.runs(id) || leader.is_some_and(|leader| !self.reaches(leader, id)) {
                continue;
            }
            let node = self.nodes.get_mut(&id).unwrap();
            if std::mem::replace(&mut node.leadership, (term, leader)) != (term, leader) {
                node.tracker.set_leadership(term, leader, leader == Some(id));
            }
            for (index, entry) in (1..).zip(&self.log).skip(node.applied) {
                node.table = entry.table.clone();
                let expired = node.tracker.applied(self.now, index, &entry.meaning, &node.table);
                for session in expired {
                    node.tracker.close(self.now, session, ClosedBy::ThisNode);
                    self.sessions.retain(|_, open| *open != session);
                }
            }
            node.applied = self.log.len();
        }
    }

    fn decide(&mut self) {
        let Some(id) = self.leader.filter(|id| self.has_lease(*id)) else { return };
        let decision = self.with_leader(id, |tracker, now, leader| tracker.decide(now, leader.unwrap()));
        if let Some(active) = decision.guard {
            self.commit(&[Change::SetEvictionGuard(SetEvictionGuard { active })]);
            let (now, term) = (self.now, self.term);
            let last = self.last_index();
            self.tracker(id).guard_proposed(now, term, ProposalEnd::Applied(last));
        }
        if decision.removals.is_empty() {
            return;
        }
        self.proposed += 1;
        match self.proposals {
            Proposals::Applied => {
                self.carry_out(&decision.removals);
                self.end_proposal(ProposalEnd::Applied(self.last_index()));
            }
            Proposals::Refused => self.end_proposal(ProposalEnd::Refused),
            Proposals::Pending => self.pending.push(decision.removals),
        }
    }

    /// The entry of removals that were decided in this term is committed.
    pub(super) fn carry_out(&mut self, brokers: &[Removal]) {
        let removal = RemoveBrokers { brokers: brokers.to_vec(), decided_in_term: Some(self.term) };
        self.commit(&[Change::RemoveBrokers(removal)]);
    }

    /// The leader learns how a proposal ended.
    pub(super) fn end_proposal(&mut self, end: ProposalEnd) {
        let (now, leader, term) = (self.now, self.leader.unwrap(), self.term);
        self.tracker(leader).proposed(now, term, end);
    }

    // Time and messages.

    pub(super) fn run(&mut self, time: Duration) {
        for _ in 0..time.as_millis().div_ceil(STEP.as_millis()) {
            self.step();
        }
    }

    pub(super) fn step(&mut self) {
        (self.now, self.steps) = (self.now + STEP, self.steps + 1);
        self.follow_leader();
        if self.steps.is_multiple_of(20) {
            for (broker, node) in self.beats.clone() {
                if self.runs(node) {
                    self.heartbeat(broker, node, Strength::Weak).unwrap();
                }
            }
        }
        for id in NODES.into_iter().filter(|id| self.runs(*id)).collect::<Vec<_>>() {
            self.with_leader(id, |tracker, now, leader| tracker.tick(now, leader));
        }
        self.decide();
        while self.exchange() {
            self.decide();
        }
    }

    /// Sends what is due. Gives whether there was anything.
    fn exchange(&mut self) -> bool {
        let mut any = false;
        for (from, to) in NODES.into_iter().flat_map(|from| NODES.map(|to| (from, to))) {
            if from == to || !self.runs(from) {
                continue;
            }
            let now = self.now;
            if let Ok(message) = self.tracker(from).poll(now, to) {
                any = true;
                self.deliver(from, to, &message);
            }
        }
        any
    }

    /// A message and its answer, as bytes.
    pub(super) fn deliver(&mut self, from: NodeId, to: NodeId, message: &Message) {
        let now = self.now;
        if !self.reaches(from, to) {
            return self.tracker(from).failed(now, to, message);
        }
        let bytes = message.encode().unwrap();
        self.bytes_sent += bytes.len();
        let message = Message::decode(&bytes).unwrap();
        let reply = self.with_leader(to, |tracker, now, leader| tracker.receive(now, from, message, leader));
        let reply = Reply::decode(&reply.encode()).unwrap();
        self.tracker(from).answered(now, to, reply);
    }
}
