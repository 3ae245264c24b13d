//! A run: three nodes, brokers and clients, a phase with faults, and one without, in which there must be progress.

use crate::brokers::Broker;
use crate::clients;
use crate::dice::Dice;
use crate::faults::Faults;
use crate::host::{Host, Moment, STEP};
use crate::invariants::progress;
use crate::network::{Network, Weather};
use crate::node::{NODES, Setup, SimNode};
use crate::record::Record;
use raft::NodeId;
use std::sync::Arc;
use std::time::Duration;

/// Until a new cluster must be there.
const BIRTH_MAX: Duration = Duration::from_secs(15);
/// Between two looks at what must hold at any time.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// After the last fault there must be progress within this, the longest timeout of a broker not counted.
const PROGRESS_WITHIN: Duration = Duration::from_secs(12);
/// And for so long it goes on then.
const CALM_FOR: Duration = Duration::from_secs(2);
/// No broker has a longer timeout.
const TIMEOUT_MAX_MS: u64 = 6_000;

pub(crate) struct World {
    pub(crate) now: Moment,
    pub(crate) dice: Dice,
    pub(crate) nodes: Vec<SimNode>,
    pub(crate) brokers: Vec<Broker>,
    pub(crate) network: Arc<Network>,
    pub(crate) record: Arc<Record>,
    /// Brokers and clients.
    pub(crate) outside: Host,
    looked: Moment,
    /// Since when nothing is wrong with nodes and the network between them.
    calm_since: Option<Moment>,
}

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) trace: u64,
    pub(crate) simulated: Duration,
    pub(crate) applied: u64,
    pub(crate) removals: u64,
    pub(crate) writes: u64,
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
        let snapshot_entries = dice.pick(&[40, 200, 50_000]).unwrap();
        let guard = dice.chance(50);
        let setup = Setup { seed, guard, snapshot_entries };
        let nodes = NODES.map(|id| SimNode::new(id, setup, &network, &record)).into();
        // The guard lets a few brokers go whenever they want.
        let count = if guard { 4 } else { dice.within(4, 8) };
        let brokers = (0..count).map(|number| Broker::new(number, dice.ms(3_000, TIMEOUT_MAX_MS))).collect();
        let outside = Host::new(Moment::ZERO, dice.next());
        let now = Moment::ZERO;
        Self { now, dice, nodes, brokers, network, record, outside, looked: now, calm_since: None }
    }

    /// Runs it all.
    pub(crate) fn run(mut self, seed: u64) -> Result<Outcome, String> {
        let outcome = self.phases(seed);
        if outcome.is_err() {
            self.tell();
        }
        outcome
    }

    fn phases(&mut self, seed: u64) -> Result<Outcome, String> {
        for node in &mut self.nodes {
            node.start(self.now);
        }
        for client in 0..3 {
            clients::start(client, &self.outside, seed, &self.network, &self.record);
        }
        for broker in &mut self.brokers {
            broker.start(self.now, &self.outside, &self.network, &self.record);
        }
        self.until("after the birth", BIRTH_MAX)?;
        let mut faults = Faults::new(seed);
        let end = self.now + self.dice.ms(4_000, 16_000);
        while self.now < end {
            faults.step(self);
            self.step()?;
        }
        faults.end(self);
        let longest = Duration::from_millis(TIMEOUT_MAX_MS);
        self.until("after the faults", PROGRESS_WITHIN + longest)?;
        self.brokers[0].die(self.now, true);
        self.brokers[1].die(self.now, false);
        self.brokers[2].changes();
        let end = self.now + CALM_FOR;
        while self.now < end {
            self.step()?;
        }
        self.until("at the end", PROGRESS_WITHIN)?;
        let seen = self.record.lock();
        Ok(Outcome {
            trace: seen.trace,
            simulated: self.now,
            applied: seen.applied,
            removals: seen.removals,
            writes: seen.acknowledged.writes,
        })
    }

    /// Steps until there is progress.
    fn until(&mut self, when: &str, within: Duration) -> Result<(), String> {
        let begin = self.now;
        loop {
            self.step()?;
            let look = progress::look(&self.nodes, &self.record.lock());
            match look {
                Ok(()) => return Ok(()),
                Err(missing) if self.now > begin + within => {
                    return Err(format!("no progress {when} within {within:?}: {missing}"));
                }
                Err(_) => {}
            }
        }
    }

    fn step(&mut self) -> Result<(), String> {
        self.network.step(self.now);
        let next = self.now + STEP;
        for node in &mut self.nodes {
            node.run_until(next);
        }
        self.outside.run_until(next);
        self.now = next;
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
        let calm = self.network.is_fair()
            && NODES.iter().all(|node| self.runs(*node))
            && NODES.iter().all(|a| NODES.iter().all(|b| self.network.linked(*a, *b)));
        self.calm_since = if calm { self.calm_since.or(Some(self.now)) } else { None };
        let mut seen = self.record.lock();
        seen.living
            .look(self.now, |node, place| self.network.linked(node, place) && self.hears_and_tells(node));
        if let Some(calm) = self.calm_since {
            seen.look_for_dead(self.now, calm, &NODES);
        }
    }

    pub(crate) fn say(&self, text: impl FnOnce() -> String) {
        self.record.lock().say(self.now, text);
    }

    pub(crate) fn runs(&self, node: NodeId) -> bool {
        self.nodes.iter().zip(NODES).any(|(sim, id)| id == node && sim.runs(self.now))
    }

    /// Runs, one other node at least does too, and it is linked with each other that is up.
    fn hears_and_tells(&self, node: NodeId) -> bool {
        let mut others = self.nodes.iter().zip(NODES).filter(|(sim, id)| *id != node && sim.is_up());
        self.runs(node)
            && NODES.iter().any(|other| *other != node && self.runs(*other))
            && others.all(|(_, other)| self.network.linked(node, other))
    }
}
