//! The world that the rules and the simulation run in. Deterministic: everything follows from the seed and the calls.

use super::super::core::{Core, Leader, Left};
use super::super::decide::Batch;
use super::super::removals::ProposalEnd;
use super::super::report::{Answer, Ask, Content, Message, Reply, Report};
use super::super::{ClosedBy, Heard, Known, LivenessOptions, SessionId};
use raft::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use storage::command::{Cause, DataVersion, Name, Origin, Registration, RemoveBrokers};
use storage::outcome::{Event, RemovedBy};
use storage::route_info::BrokerKey;
use storage::{Change, Command, LogId, Position, RouteInfo};
use tokio::sync::oneshot;
use tokio::time::Instant;

pub(super) const NODES: [NodeId; 3] = [1, 2, 3];

/// Since the world began.
pub(super) type Moment = Duration;

pub(super) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A small generator: the same numbers for a seed for ever.
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from)
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// A node: process, table, and what it waits for.
pub(super) struct SimNode {
    pub(super) core: Core,
    pub(super) table: RouteInfo,
    pub(super) applied: usize,
    pub(super) up: bool,
    pub(super) paused_until: Moment,
    pub(super) process: u64,
    outstanding: BTreeMap<NodeId, u64>,
    confirming: Vec<(BrokerKey, oneshot::Receiver<Known>)>,
}

/// A broker process.
pub(super) struct Broker {
    pub(super) key: BrokerKey,
    pub(super) name: Name,
    pub(super) alive: bool,
    pub(super) timeout_ms: i64,
    pub(super) version: i64,
    pub(super) nodes: Vec<NodeId>,
    pub(super) sessions: BTreeMap<NodeId, SessionId>,
}

#[derive(Debug)]
enum Input {
    Report { from: NodeId, report: Report, bytes: usize },
    Answer { from: NodeId, sequence: u64, answer: Answer },
    NoAnswer { from: NodeId, sequence: u64 },
    Ask { from: NodeId, ask: Ask },
    Protecting(Duration),
    Heard { session: SessionId, broker: usize, what: Heard },
    Closed { session: SessionId, by: ClosedBy },
    Tick,
    Apply,
    Registered { broker: usize, session: SessionId },
}

#[derive(Debug)]
enum Due {
    Node(NodeId, u64, Input),
    Commit(Proposal),
    Raft,
    Elect,
}

#[derive(Debug, Clone)]
struct Proposal {
    by: NodeId,
    term: u64,
    command: Command,
    batch: Option<u64>,
    broker: Option<(NodeId, usize, SessionId)>,
}

/// A committed entry.
pub(super) struct Entry {
    pub(super) term: u64,
    pub(super) commands: Vec<Command>,
}

/// A broker that left, when that was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Removed {
    pub(super) at: Moment,
    pub(super) key: BrokerKey,
    pub(super) cause: Cause,
}

/// See the module's documentation.
pub(super) struct World {
    base: Instant,
    pub(super) now: Moment,
    pub(super) dice: Dice,
    due: BTreeMap<(Moment, u64), Due>,
    scheduled: u64,
    pub(super) nodes: BTreeMap<NodeId, SimNode>,
    pub(super) brokers: Vec<Broker>,
    pub(super) term: u64,
    pub(super) leader: Option<NodeId>,
    electing: bool,
    lease_until: Moment,
    pub(super) log: Vec<Entry>,
    committed: RouteInfo,
    limbo: Vec<Proposal>,
    /// Directed links that carry nothing.
    pub(super) cut: BTreeSet<(NodeId, NodeId)>,
    /// Percent of messages between nodes that are lost, and that are late.
    pub(super) lost: u64,
    pub(super) late: u64,
    /// Commits are held while set.
    pub(super) hold_commits: bool,
    held: Vec<Proposal>,
    options: LivenessOptions,
    sessions: u64,
    pub(super) removed: Vec<Removed>,
    pub(super) proposals: u64,
    pub(super) known_told: u64,
    order: BTreeMap<(NodeId, NodeId), Moment>,
    pub(super) bytes_sent: usize,
}

impl World {
    pub(super) fn new(seed: u64, guard: bool) -> Self {
        Self::with(seed, LivenessOptions { guard, ..LivenessOptions::new(1) })
    }

    pub(super) fn with(seed: u64, options: LivenessOptions) -> Self {
        let mut world = Self {
            base: Instant::now(),
            now: Moment::ZERO,
            dice: Dice::new(seed),
            due: BTreeMap::new(),
            scheduled: 0,
            nodes: BTreeMap::new(),
            brokers: Vec::new(),
            term: 1,
            leader: None,
            electing: false,
            lease_until: Moment::ZERO,
            log: Vec::new(),
            committed: RouteInfo::default(),
            limbo: Vec::new(),
            cut: BTreeSet::new(),
            lost: 0,
            late: 0,
            hold_commits: false,
            held: Vec::new(),
            options,
            sessions: 0,
            removed: Vec::new(),
            proposals: 0,
            known_told: 0,
            order: BTreeMap::new(),
            bytes_sent: 0,
        };
        for id in NODES {
            world.boot(id, RouteInfo::default(), 0);
        }
        world.elect(1);
        world.at(ms(20), Due::Raft);
        world
    }

    fn at(&mut self, after: Duration, due: Due) {
        self.scheduled += 1;
        self.due.insert((self.now + after, self.scheduled), due);
    }

    fn send(&mut self, after: Duration, node: NodeId, input: Input) {
        let process = self.nodes[&node].process;
        self.at(after, Due::Node(node, process, input));
    }

    fn instant(&self) -> Instant {
        self.base + self.now
    }

    /// Starts a process on what its disk holds.
    fn boot(&mut self, id: NodeId, table: RouteInfo, applied: usize) {
        let process = self.dice.next();
        let options = LivenessOptions { node_id: id, ..self.options.clone() };
        let mut core = Core::new(&options, process, self.instant());
        core.follow_all(self.instant(), table.live_brokers());
        core.members(self.instant(), &NODES.map(|node| (node, true)));
        core.leadership(self.term, self.leader);
        core.complete = true;
        let node = SimNode {
            core,
            table,
            applied,
            up: true,
            paused_until: Moment::ZERO,
            process,
            outstanding: BTreeMap::new(),
            confirming: Vec::new(),
        };
        self.nodes.insert(id, node);
        self.send(Duration::ZERO, id, Input::Tick);
    }

    /// Kills a node's process: its connections are gone, and nobody reports that.
    pub(super) fn kill_node(&mut self, id: NodeId) {
        self.nodes.get_mut(&id).unwrap().up = false;
        for broker in &mut self.brokers {
            broker.sessions.remove(&id);
        }
        if self.leader == Some(id) {
            self.lose_leader();
        }
    }

    pub(super) fn restart_node(&mut self, id: NodeId) {
        let node = self.nodes.remove(&id).unwrap();
        self.boot(id, node.table, node.applied);
    }

    pub(super) fn pause_node(&mut self, id: NodeId, time: Duration) {
        self.nodes.get_mut(&id).unwrap().paused_until = self.now + time;
    }

    pub(super) fn runs(&self, id: NodeId) -> bool {
        self.nodes[&id].up && self.nodes[&id].paused_until <= self.now
    }

    pub(super) fn linked(&self, a: NodeId, b: NodeId) -> bool {
        a == b || (!self.cut.contains(&(a, b)) && !self.cut.contains(&(b, a)))
    }

    /// Runs and is linked with a majority of nodes that run.
    pub(super) fn in_majority(&self, id: NodeId) -> bool {
        self.runs(id)
            && NODES.iter().filter(|other| self.runs(**other) && self.linked(id, **other)).count() >= 2
    }

    pub(super) fn lose_leader(&mut self) {
        self.leader = None;
        if !self.electing {
            self.electing = true;
            let after = ms(self.dice.within(300, 800));
            self.at(after, Due::Elect);
        }
    }

    /// Makes a node the leader of a new term. What was proposed and not committed may be, under its old term.
    pub(super) fn elect(&mut self, id: NodeId) {
        for proposal in std::mem::take(&mut self.limbo) {
            if self.dice.chance(50) {
                self.log.push(Entry { term: proposal.term, commands: vec![proposal.command] });
            }
        }
        self.term += 1;
        self.leader = Some(id);
        self.electing = false;
        self.log.push(Entry { term: self.term, commands: Vec::new() });
        self.catch_up(id);
        self.lease_until = self.now + ms(300);
        let (term, leader) = (self.term, self.leader);
        for node in self.nodes.values_mut().filter(|node| node.up) {
            node.core.leadership(term, leader);
        }
    }

    /// Consensus, every 20 ms: leases, failed leaders, followers that catch up.
    fn raft(&mut self) {
        match self.leader {
            Some(id) if self.in_majority(id) => {
                self.lease_until = self.now + ms(300);
                self.commit_limbo(id);
                for other in NODES
                    .into_iter()
                    .filter(|other| self.runs(*other) && self.linked(id, *other))
                    .collect::<Vec<_>>()
                {
                    self.send(Duration::ZERO, other, Input::Apply);
                }
            }
            Some(_) if self.now > self.lease_until => self.lose_leader(),
            Some(_) => {}
            None => self.lose_leader(),
        }
        self.at(ms(20), Due::Raft);
    }

    /// What a leader appended while it was cut off for a moment is committed once it is not.
    fn commit_limbo(&mut self, id: NodeId) {
        let term = self.term;
        let (mine, others) =
            std::mem::take(&mut self.limbo).into_iter().partition(|p| p.by == id && p.term == term);
        self.limbo = others;
        let mine: Vec<Proposal> = mine;
        self.log.extend(mine.into_iter().map(|p| Entry { term: p.term, commands: vec![p.command] }));
    }

    fn try_elect(&mut self) {
        self.electing = false;
        let fit: Vec<_> = NODES.into_iter().filter(|id| self.in_majority(*id)).collect();
        if self.leader.is_none() && !fit.is_empty() {
            let pick = usize::try_from(self.dice.next()).unwrap() % fit.len();
            self.elect(fit[pick]);
        }
    }

    fn commit(&mut self, proposal: Proposal) {
        if self.hold_commits {
            self.held.push(proposal);
            return;
        }
        if self.leader == Some(proposal.by) && self.term == proposal.term && self.in_majority(proposal.by) {
            self.log.push(Entry { term: proposal.term, commands: vec![proposal.command.clone()] });
            self.catch_up(proposal.by);
            for other in NODES {
                let after = ms(self.dice.within(1, 4));
                self.send(after, other, Input::Apply);
            }
            self.tell(&proposal, ProposalEnd::Applied);
            if let Some((node, broker, session)) = proposal.broker {
                self.send(ms(5), node, Input::Registered { broker, session });
            }
        } else if self.dice.chance(50) {
            self.tell(&proposal, ProposalEnd::Unknown);
            self.limbo.push(proposal);
        } else {
            self.tell(&proposal, ProposalEnd::Refused);
        }
    }

    fn tell(&mut self, proposal: &Proposal, end: ProposalEnd) {
        let Some(batch) = proposal.batch else { return };
        let now = self.instant();
        if self.nodes[&proposal.by].up {
            self.nodes.get_mut(&proposal.by).unwrap().core.proposed(now, batch, end);
        }
    }

    /// Lets held commits go, in order.
    pub(super) fn release_commits(&mut self) {
        self.hold_commits = false;
        for proposal in std::mem::take(&mut self.held) {
            self.commit(proposal);
        }
    }

    /// Notes the removals among what was committed.
    fn judge_committed(&mut self) {
        let Self { log, committed, .. } = self;
        let done = committed.revision().map_or(0, |id| id.index);
        for (index, entry) in (done + 1..).zip(&log[usize::try_from(done).unwrap()..]) {
            let applied = committed.apply_entry(LogId { term: entry.term, index }, &entry.commands);
            for event in applied.events {
                if let Event::BrokerRemoved { cluster, address, cause: RemovedBy::Removal(cause), .. } = event
                {
                    let key = BrokerKey { cluster, address };
                    self.removed.push(Removed { at: self.now, key, cause });
                }
            }
        }
    }

    /// Applies all that is committed on a node, and lets its ledger follow.
    pub(super) fn catch_up(&mut self, id: NodeId) {
        self.judge_committed();
        let now = self.instant();
        let node = self.nodes.get_mut(&id).unwrap();
        while let Some(entry) = self.log.get(node.applied) {
            let index = node.applied as u64 + 1;
            let applied = node.table.apply_entry(LogId { term: entry.term, index }, &entry.commands);
            node.applied += 1;
            let mut left = Left::default();
            for event in &applied.events {
                let (Event::BrokerRegistered { cluster, address, .. }
                | Event::BrokerRemoved { cluster, address, .. }) = event
                else {
                    continue;
                };
                let key = BrokerKey { cluster: cluster.clone(), address: address.clone() };
                if let Event::BrokerRemoved { cause: RemovedBy::Removal(cause), .. } = event {
                    left.expired += usize::from(matches!(cause, Cause::Expired { .. }));
                    left.disconnected += usize::from(*cause == Cause::Disconnected);
                    left.guarded += if *cause == Cause::Asked { 0 } else { node.core.guarded([&key]) };
                }
                node.core.follow(now, &key, node.table.live(&key), true);
            }
            node.core.followed(now, index, left);
        }
    }

    /// Runs the core of a node, as its leader when it is one.
    fn with_leader<R>(
        &mut self,
        id: NodeId,
        act: impl FnOnce(&mut Core, Instant, Option<&Leader<'_>>) -> R,
    ) -> R {
        let now = self.instant();
        let leads = self.leader == Some(id) && self.now <= self.lease_until && self.in_majority(id);
        let SimNode { core, table, applied, .. } = self.nodes.get_mut(&id).unwrap();
        let incarnation = |key: &BrokerKey| table.live(key).map(|live| live.incarnation);
        let leader = Leader { term: self.term, applied: *applied as u64, incarnation: &incarnation };
        act(core, now, leads.then_some(&leader))
    }

    /// Runs everything that is due within a time.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(next) = self.due.first_entry().filter(|next| next.key().0 <= end) {
            self.now = next.key().0.max(self.now);
            match next.remove() {
                Due::Node(node, process, input) => self.node_input(node, process, input),
                Due::Commit(proposal) => self.commit(proposal),
                Due::Raft => self.raft(),
                Due::Elect => self.try_elect(),
            }
        }
        self.now = end;
    }

    fn node_input(&mut self, id: NodeId, process: u64, input: Input) {
        let node = &self.nodes[&id];
        if !node.up || node.process != process {
            return;
        }
        if node.paused_until > self.now {
            let after = node.paused_until - self.now;
            self.at(after, Due::Node(id, process, input));
            return;
        }
        let tick = matches!(input, Input::Tick);
        self.take(id, input);
        self.after(id, tick);
    }

    fn take(&mut self, id: NodeId, input: Input) {
        let now = self.instant();
        match input {
            Input::Tick => self.send(ms(50), id, Input::Tick),
            Input::Apply => self.catch_up(id),
            Input::Report { from, report, bytes } => {
                self.bytes_sent += bytes;
                let sequence = report.sequence;
                let answer =
                    self.with_leader(id, |core, now, leader| core.receive(now, from, report, leader));
                let Reply::Report(answer) = Reply::decode(&Reply::Report(answer).encode()).unwrap() else {
                    return;
                };
                if self.nodes[&from].up && !self.cut.contains(&(id, from)) && !self.dice.chance(self.lost) {
                    let after = self.latency();
                    self.send(after, from, Input::Answer { from: id, sequence, answer });
                }
            }
            Input::Answer { from, sequence, answer } => {
                let node = self.nodes.get_mut(&id).unwrap();
                if node.outstanding.get(&from) == Some(&sequence) {
                    node.outstanding.remove(&from);
                    node.core.answered(now, from, answer);
                }
            }
            Input::NoAnswer { from, sequence } => {
                let node = self.nodes.get_mut(&id).unwrap();
                if node.outstanding.get(&from) == Some(&sequence) {
                    node.outstanding.remove(&from);
                    node.core.failed(now, from);
                }
            }
            Input::Ask { from, ask } => self.nodes.get_mut(&id).unwrap().core.asked(from, ask),
            Input::Protecting(time) => self.nodes.get_mut(&id).unwrap().core.others_protect(now, time),
            Input::Heard { session, broker, what: Heard::Heartbeat } => {
                let key = self.brokers[broker].key.clone();
                self.nodes.get_mut(&id).unwrap().core.heard(now, session, &key, Heard::Heartbeat, None);
            }
            Input::Heard { session, broker, what: Heard::Register } => self.register(id, session, broker),
            Input::Registered { broker, session } => {
                self.catch_up(id);
                if self.brokers[broker].sessions.get(&id) == Some(&session) {
                    let key = self.brokers[broker].key.clone();
                    self.registered(id, session, &key);
                }
            }
            Input::Closed { session, by } => {
                self.nodes.get_mut(&id).unwrap().core.closed(now, session, by);
            }
        }
    }

    /// REGISTER at a node: unchanged ones are confirmed, others proposed.
    fn register(&mut self, id: NodeId, session: SessionId, broker: usize) {
        let Broker { key, version, .. } = &self.brokers[broker];
        let (key, version) = (key.clone(), *version);
        let unchanged =
            self.nodes[&id].table.live(&key).is_some_and(|live| live.data_version.counter == version);
        if !unchanged {
            // Whoever registers speaks, whatever becomes of it.
            let now = self.instant();
            self.nodes.get_mut(&id).unwrap().core.heard(now, session, &key, Heard::Heartbeat, None);
            self.propose_registration(id, session, broker);
            return;
        }
        self.registered(id, session, &key);
        match self.with_leader(id, |core, now, leader| core.confirm(now, &key, leader)) {
            Ok(known) => self.confirmed(id, &key, known),
            Err(told) => self.nodes.get_mut(&id).unwrap().confirming.push((key, told)),
        }
    }

    fn registered(&mut self, id: NodeId, session: SessionId, key: &BrokerKey) {
        let now = self.instant();
        let SimNode { core, table, .. } = self.nodes.get_mut(&id).unwrap();
        let incarnation = table.live(key).map(|live| live.incarnation);
        core.heard(now, session, key, Heard::Register, incarnation);
    }

    fn confirmed(&mut self, id: NodeId, key: &BrokerKey, known: Known) {
        match known {
            Known::Known { .. } => self.known_told += 1,
            Known::Unknown => {
                let Some(broker) = self.brokers.iter().position(|broker| broker.key == *key) else { return };
                if let Some(session) = self.brokers[broker].sessions.get(&id) {
                    self.propose_registration(id, *session, broker);
                }
            }
            Known::NotNow => {}
        }
    }

    fn propose_registration(&mut self, id: NodeId, session: SessionId, broker: usize) {
        let Some(leader) = self.leader else { return };
        if !self.linked(id, leader) {
            return;
        }
        let command = self.brokers[broker].registration();
        let proposal = Proposal {
            by: leader,
            term: self.term,
            command,
            batch: None,
            broker: Some((id, broker, session)),
        };
        let after = ms(self.dice.within(2, 8));
        self.at(after, Due::Commit(proposal));
    }

    /// What follows an input: decisions, questions, reports, answers to those who wait.
    fn after(&mut self, id: NodeId, tick: bool) {
        let last = (self.log.len() + self.limbo.len()) as u64;
        let decide = std::mem::take(&mut self.nodes.get_mut(&id).unwrap().core.wakes).decider;
        if tick || decide {
            let decision = self.with_leader(id, |core, now, leader| {
                core.tick(now, leader);
                if core.wants_last_index(now) {
                    core.last_index(now, last);
                }
                leader.map(|leader| core.decide(now, leader))
            });
            if let Some(decision) = decision {
                if let Some((ask, nodes)) = decision.ask {
                    nodes.into_iter().for_each(|to| self.send_ask(id, to, ask));
                }
                if let Some(batch) = decision.removal {
                    self.propose_removal(id, batch);
                }
            }
        }
        for to in NODES.into_iter().filter(|to| *to != id) {
            let now = self.instant();
            if let Some(report) = self.nodes.get_mut(&id).unwrap().core.poll(now, to) {
                self.send_report(id, to, report);
            }
        }
        let confirming = std::mem::take(&mut self.nodes.get_mut(&id).unwrap().confirming);
        for (key, mut told) in confirming {
            match told.try_recv() {
                Ok(known) => self.confirmed(id, &key, known),
                Err(oneshot::error::TryRecvError::Empty) => {
                    self.nodes.get_mut(&id).unwrap().confirming.push((key, told));
                }
                Err(oneshot::error::TryRecvError::Closed) => {}
            }
        }
    }

    fn propose_removal(&mut self, id: NodeId, batch: Batch) {
        self.proposals += 1;
        let change = Change::RemoveBrokers(RemoveBrokers {
            brokers: batch.brokers,
            decided_in_term: Some(batch.term),
        });
        let command = Command { origin: Origin::default(), change };
        let proposal =
            Proposal { by: id, term: batch.term, command, batch: Some(batch.number), broker: None };
        let after = ms(self.dice.within(2, 6));
        self.at(after, Due::Commit(proposal));
    }

    /// An entry by the leader that no core knows of.
    pub(super) fn propose_late(&mut self, command: Command) {
        let by = self.leader.unwrap();
        self.at(ms(1), Due::Commit(Proposal { by, term: self.term, command, batch: None, broker: None }));
    }

    fn latency(&mut self) -> Duration {
        if self.dice.chance(self.late) {
            ms(self.dice.within(100, 1_500))
        } else {
            ms(self.dice.within(1, 3))
        }
    }

    fn send_report(&mut self, from: NodeId, to: NodeId, report: Report) {
        let sequence = report.sequence;
        let now = self.instant();
        let protecting = self.nodes.get_mut(&from).unwrap().core.protected_for(now);
        self.nodes.get_mut(&from).unwrap().outstanding.insert(to, sequence);
        self.send(ms(1_000), from, Input::NoAnswer { from: to, sequence });
        let bytes = Message::Report(report).encode().unwrap();
        if self.cut.contains(&(from, to)) || !self.nodes[&to].up || self.dice.chance(self.lost) {
            return;
        }
        let Ok(Message::Report(report)) = Message::decode(&bytes) else { return };
        let earliest = self.order.get(&(from, to)).copied().unwrap_or_default();
        let arrives = (self.now + self.latency()).max(earliest);
        self.order.insert((from, to), arrives);
        if let Some(protected_for) = protecting.filter(|_| matches!(report.content, Content::Full(_))) {
            self.send(arrives - self.now, to, Input::Protecting(protected_for));
        }
        self.send(arrives - self.now, to, Input::Report { from, report, bytes: bytes.len() });
    }

    fn send_ask(&mut self, from: NodeId, to: NodeId, ask: Ask) {
        if !self.cut.contains(&(from, to)) && self.nodes[&to].up && !self.dice.chance(self.lost) {
            let after = self.latency();
            self.send(after, to, Input::Ask { from, ask });
        }
    }

    // Brokers.

    /// A broker that speaks to some nodes; not yet registered.
    pub(super) fn broker(&mut self, timeout_ms: i64, nodes: &[NodeId]) -> usize {
        let n = self.brokers.len();
        let key = BrokerKey { cluster: "c".into(), address: format!("10.0.0.{n}:10911").into() };
        self.brokers.push(Broker {
            key,
            name: format!("b{n}").into(),
            alive: true,
            timeout_ms,
            version: 1,
            nodes: nodes.to_vec(),
            sessions: BTreeMap::new(),
        });
        n
    }

    fn say(&mut self, broker: usize, node: NodeId, what: Heard) {
        if !self.nodes[&node].up || !self.brokers[broker].alive {
            return;
        }
        let fresh = SessionId(self.sessions + 1);
        let session = *self.brokers[broker].sessions.entry(node).or_insert(fresh);
        self.sessions += u64::from(session == fresh);
        let after = ms(self.dice.within(0, 3));
        self.send(after, node, Input::Heard { session, broker, what });
    }

    /// The broker registers with a node, over its connection there (a new one, if there is none).
    pub(super) fn registers(&mut self, broker: usize, node: NodeId) {
        self.say(broker, node, Heard::Register);
    }

    pub(super) fn beats(&mut self, broker: usize, node: NodeId) {
        self.say(broker, node, Heard::Heartbeat);
    }

    pub(super) fn registers_everywhere(&mut self, broker: usize) {
        for node in self.brokers[broker].nodes.clone() {
            self.registers(broker, node);
        }
    }

    pub(super) fn beats_everywhere(&mut self, broker: usize) {
        for node in self.brokers[broker].nodes.clone() {
            self.beats(broker, node);
        }
    }

    /// The broker's connection to a node ends.
    pub(super) fn closes(&mut self, broker: usize, node: NodeId, by: ClosedBy, after: Duration) {
        if let Some(session) = self.brokers[broker].sessions.remove(&node)
            && self.nodes[&node].up
        {
            let process = self.nodes[&node].process;
            self.at(after, Due::Node(node, process, Input::Closed { session, by }));
        }
    }

    /// The broker's process dies: all connections end within moments.
    pub(super) fn kill_broker(&mut self, broker: usize) {
        self.brokers[broker].alive = false;
        for node in NODES {
            let after = ms(self.dice.within(1, 4));
            self.closes(broker, node, ClosedBy::Peer, after);
        }
    }

    /// The broker's host vanishes: nothing ends.
    pub(super) fn vanish(&mut self, broker: usize) {
        self.brokers[broker].alive = false;
        self.brokers[broker].sessions.clear();
    }

    pub(super) fn has(&self, node: NodeId, broker: usize) -> bool {
        self.nodes[&node].table.live(&self.brokers[broker].key).is_some()
    }

    pub(super) fn incarnation(&self, node: NodeId, broker: usize) -> Option<Position> {
        self.nodes[&node].table.live(&self.brokers[broker].key).map(|live| live.incarnation)
    }

    /// All nodes have the broker, or none has.
    pub(super) fn everywhere(&self, broker: usize) -> Option<bool> {
        let have: BTreeSet<_> = NODES.iter().map(|node| self.has(*node, broker)).collect();
        (have.len() == 1).then(|| have.contains(&true))
    }

    /// Runs with all living brokers beating each second and registering every ten.
    pub(super) fn live_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let second = self.now.as_secs();
            for broker in 0..self.brokers.len() {
                if (second + broker as u64).is_multiple_of(10) {
                    self.registers_everywhere(broker);
                } else {
                    self.beats_everywhere(broker);
                }
            }
            self.run(ms(1_000).min(end - self.now));
        }
    }
}

impl Broker {
    fn registration(&self) -> Command {
        let change = Change::RegisterBroker(Box::new(Registration {
            heartbeat_timeout_ms: Some(self.timeout_ms),
            data_version: DataVersion { state_version: 0, timestamp: 1, counter: self.version },
            ..Registration::of_master(self.key.cluster.clone(), self.name.clone(), self.key.address.clone())
        }));
        Command { origin: Origin::default(), change }
    }
}
