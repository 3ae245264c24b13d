//! A run: three nodes, brokers and clients, a phase with faults, and one without, in which there must be progress.

mod phases;

use crate::brokers::Broker;
use crate::dice::Dice;
use crate::disk::SLOW_WRITE_MAX;
use crate::host::{Host, Moment, STEP};
use crate::invariants::routes::Readiness;
use crate::network::{Network, Weather};
use crate::node::{GUARD_HOLD, NODES, Setup, SimNode};
use crate::reachability::Sight;
use crate::record::Record;
use raft::NodeId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at what must hold at any time.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A node that is linked again tells what it hears after so long.
const TELLS_WITHIN: Duration = Duration::from_secs(2);
/// A leader can decide so long after it was elected.
const LEADS_WITHIN: Duration = Duration::from_secs(1);
/// Timeouts of brokers, and of some, which are longer than a user time-out.
const TIMEOUT_MS: (u64, u64) = (3_000, 6_000);
const LONG_TIMEOUT_MS: (u64, u64) = (20_000, 40_000);
/// The broker whose machine vanishes once nothing else goes wrong.
const VANISHES: u64 = 1;
/// The timeout of one that hangs while leaders are killed one after the other, and which broker that is.
const HANGS_FOR_MS: (u64, u64) = (16_000, 20_000);
const HANGS: u64 = 3;
/// Between two leadership transfers where the leader changes all the time: shorter than any timeout of a broker.
const TRANSFER_EVERY_MS: (u64, u64) = (1_200, 2_800);
/// Where packets are lost, several of those that carry the end of one connection may be.
const LOST_PACKETS_MARGIN: Duration = Duration::from_secs(1);
/// Where disks hang often, everything may take this much longer.
const SLOW_DISK_MARGIN: Duration = Duration::from_secs(3);
/// Between two snapshots, where there are many.
const FEW_ENTRIES: u64 = 10;
/// Where a node that finds no leader shows what it has, and where one that hears none any more does not.
const RECOVERY_WAIT: Duration = Duration::from_secs(3);
const STALENESS_MAX: Duration = Duration::from_secs(2);
/// How long the guard counts what is gone as gone at once.
const GUARD_WINDOW: Duration = Duration::from_secs(10);

pub(crate) struct World {
    pub(crate) now: Moment,
    pub(crate) dice: Dice,
    pub(crate) nodes: Vec<SimNode>,
    pub(crate) brokers: Vec<Broker>,
    pub(crate) network: Arc<Network>,
    pub(crate) record: Arc<Record>,
    /// Brokers and clients.
    pub(crate) outside: Host,
    /// Who leads changes all the time once faults are over.
    changing_leaders: bool,
    /// When it changes next, if it does.
    next_change: Option<Moment>,
    guarded: bool,
    /// A broker hangs while leaders are killed.
    hangs: bool,
    /// How much longer everything takes in this run.
    patience: Duration,
    /// What one lacks others have only in a snapshot, soon.
    many_snapshots: bool,
    slow_disks_until: Moment,
    looked: Moment,
    /// Since when nodes have been reachability and telling.
    tells_since: BTreeMap<NodeId, Moment>,
}

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) trace: u64,
    pub(crate) simulated: Duration,
    pub(crate) applied: u64,
    pub(crate) removals: u64,
    pub(crate) writes: u64,
    pub(crate) notices: u64,
    /// Changes of lowest ids that needed a notice once faults were over.
    pub(crate) due_notices: u64,
    pub(crate) routes: u64,
}

impl World {
    pub(crate) fn new(seed: u64, verbose: bool) -> Self {
        let mut dice = Dice::of(seed, "world", 0);
        let weather = Weather {
            delay_max_ms: dice.pick(&[6, 8, 14, 30]).unwrap(),
            lost_permille: dice.pick(&[0, 0, 2, 10]).unwrap(),
        };
        let network = Network::new(seed, weather);
        let record = Record::new(verbose);
        let slow_disks = dice.chance(15);
        let few_sessions = dice.chance(15).then(|| dice.within(0, 3));
        let count = dice.pick(&[4, 4, 5, 6, 7, 9]).unwrap();
        let pair = dice.chance(40).then(|| dice.within(0, count));
        // Room for one connection of each broker, and a few: those that overlap are refused, and so are new ones beside old
        // ones whose end no node has noticed yet.
        let most = few_sessions.map(|more| count + u64::from(pair.is_some()) + more);
        let setup = Setup {
            seed,
            guard: dice.chance(50),
            snapshot_entries: dice.pick(&[FEW_ENTRIES, 100, 50_000]).unwrap(),
            disk_hangs_of: if slow_disks { 40 } else { 2_000 },
            readiness: Readiness {
                recovery_wait: dice.pick(&[None, None, Some(RECOVERY_WAIT)]).unwrap(),
                staleness_max: dice.pick(&[None, Some(STALENESS_MAX)]).unwrap(),
            },
            sessions_max: most.map(|most| usize::try_from(most).unwrap()),
        };
        let nodes = NODES.map(|id| SimNode::new(id, setup, &network, &record)).into();
        let (hangs, long_ones) = (dice.chance(8), dice.chance(15));
        let mut broker = |number| {
            let percent = if number == VANISHES { 60 } else { 25 };
            let long = if long_ones && dice.chance(percent) { LONG_TIMEOUT_MS } else { TIMEOUT_MS };
            let (from, to) = if hangs && number == HANGS { HANGS_FOR_MS } else { long };
            Broker::new(seed, number, dice.ms(from, to), pair == Some(number))
        };
        let brokers: Vec<Broker> = (0..count).map(&mut broker).collect();
        // The guard lets four brokers go whenever they want.
        let guarded = setup.guard && brokers.iter().map(Broker::count).sum::<usize>() > 4;
        let lossy = weather.lost_permille > 0;
        record.lock().routes.readiness = setup.readiness;
        let patience = if lossy { LOST_PACKETS_MARGIN } else { Duration::ZERO }
            + if slow_disks { SLOW_DISK_MARGIN } else { Duration::ZERO };
        record.lock().dead.patience =
            patience + if guarded { GUARD_WINDOW + GUARD_HOLD } else { Duration::ZERO };
        let outside = Host::new(Moment::ZERO, dice.next());
        let changing_leaders = dice.chance(50);
        let now = Moment::ZERO;
        let looked = now;
        Self {
            now,
            dice,
            nodes,
            brokers,
            network,
            record,
            outside,
            changing_leaders,
            next_change: None,
            guarded,
            hangs,
            patience,
            many_snapshots: setup.snapshot_entries == FEW_ENTRIES,
            slow_disks_until: now,
            looked,
            tells_since: BTreeMap::new(),
        }
    }

    /// Runs it all.
    pub(crate) fn run(mut self, seed: u64) -> Result<Outcome, String> {
        let outcome = self.phases(seed);
        if outcome.is_err() {
            self.tell();
        }
        outcome
    }

    fn step(&mut self) -> Result<(), String> {
        self.network.step(self.now);
        if self.next_change.is_some_and(|at| at <= self.now) {
            self.next_change = Some(self.now + self.dice.ms(TRANSFER_EVERY_MS.0, TRANSFER_EVERY_MS.1));
            let to = self.dice.pick(&NODES).unwrap();
            self.nodes.iter().for_each(|node| node.transfers_leadership_to(to));
        }
        let next = self.now + STEP;
        for node in &mut self.nodes {
            node.run_until(next);
        }
        self.outside.run_until(next);
        self.now = next;
        self.record.lock().now = next;
        if self.now >= self.looked + LOOK_EVERY {
            self.looked = self.now;
            self.look();
        }
        match self.record.take_violation() {
            Some(violation) => Err(format!("at {:?}: {violation}", self.now)),
            None => Ok(()),
        }
    }

    /// What the nodes think of it.
    fn tell(&self) {
        for node in &self.nodes {
            self.say(|| node.tell());
        }
    }

    fn look(&mut self) {
        let sights = NODES.map(|node| (node, self.sight(node)));
        for node in NODES {
            if self.hears_and_tells(node) {
                self.tells_since.entry(node).or_insert(self.now);
            } else {
                self.tells_since.remove(&node);
            }
        }
        let tells = |node| self.tells_since.get(&node).is_some_and(|since| self.now >= *since + TELLS_WITHIN);
        let mut seen = self.record.lock();
        for (node, sight) in sights {
            seen.reachability.look(self.now, LOOK_EVERY, node, sight);
        }
        seen.living.look(self.now, |node, place| self.network.linked(node, place) && tells(node));
        // Nodes that stop are no part of a majority.
        let stay =
            NODES.into_iter().filter(|node| self.runs(*node) && !self.nodes[place_of(*node)].is_stopping());
        let majority_stays = stay.count() * 2 > NODES.len();
        let leader = seen.reachability.leads(self.now, LEADS_WITHIN);
        let leader = leader.filter(|(leader, _)| majority_stays && self.runs(*leader));
        seen.count_leases(self.now, LOOK_EVERY, &self.network, leader);
        let verdict = seen.notices.look(self.now, self.patience);
        seen.violated(verdict);
        seen.look_at_suspects();
        let decider = seen.reachability.decider(self.now, LEADS_WITHIN, NODES.len());
        if let Some(mut decider) = decider.filter(|_| majority_stays) {
            decider.nodes.retain(|node| !self.nodes[place_of(*node)].is_stopping());
            seen.look_for_dead(self.now, &decider);
        }
    }

    fn sight(&self, node: NodeId) -> Sight {
        let others = || NODES.into_iter().filter(|other| *other != node && self.runs(*other));
        let (speaks_with, unlinked): (Vec<_>, Vec<_>) =
            others().partition(|other| self.network.linked(node, *other));
        let half = unlinked.into_iter().filter(|other| self.network.half_linked(node, *other)).collect();
        let fair = self.network.is_fair() && self.now >= self.slow_disks_until;
        Sight { runs: self.runs(node), speaks_with, half, fair }
    }

    /// A write that begins until then may take longer.
    pub(crate) fn disks_are_slow_for(&mut self, lasts: Duration) {
        let until = self.now + lasts;
        self.nodes.iter().for_each(|node| node.disk_is_slow_until(until));
        self.slow_disks_until = until + SLOW_WRITE_MAX;
    }

    pub(crate) fn say(&self, text: impl FnOnce() -> String) {
        self.record.lock().say(self.now, text);
    }

    pub(crate) fn node(&mut self, id: NodeId) -> &mut SimNode {
        &mut self.nodes[place_of(id)]
    }

    pub(crate) fn runs(&self, node: NodeId) -> bool {
        self.nodes[place_of(node)].runs(self.now)
    }

    /// Runs, one other node at least does too, and it is linked with each other that is up.
    fn hears_and_tells(&self, node: NodeId) -> bool {
        let mut others = self.nodes.iter().zip(NODES).filter(|(sim, id)| *id != node && sim.is_up());
        self.runs(node)
            && NODES.iter().any(|other| *other != node && self.runs(*other))
            && others.all(|(_, other)| self.network.linked(node, other))
    }
}

/// Where a node stands among [`NODES`].
fn place_of(node: NodeId) -> usize {
    NODES.iter().position(|other| *other == node).unwrap()
}
