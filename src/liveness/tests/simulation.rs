//! Random faults from a seed: no living broker leaves, every dead one does.
//!
//! A failure names its seed; `LIVENESS_SEED=<seed> cargo test -p raft-namesrv --lib liveness::tests::simulation`
//! repeats it. `LIVENESS_SEEDS=<count>` runs more.

use super::super::ClosedBy;
use super::world::{Broker, Moment, NODES, Removed, World, ms};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const SEEDS: u64 = 60;
const TIMEOUT_MS: u64 = 10_000;

#[test]
fn no_living_broker_leaves_and_every_dead_one_does() {
    let named = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seeds = match named("LIVENESS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..named("LIVENESS_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        let outcome = std::panic::catch_unwind(|| Run::new(seed).run());
        assert!(outcome.is_ok(), "seed {seed}: repeat with LIVENESS_SEED={seed}");
    }
}

/// One run: a cluster, its brokers, and what is owed to each of them.
struct Run {
    world: World,
    /// Since when a broker has had no node that hears it, runs, and is with the majority and its leader.
    uncovered: BTreeMap<usize, Moment>,
    /// Came back and has not been registered anew: what leaves is what was left of its former process.
    returning: BTreeSet<usize>,
    judged: usize,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut world = World::new(seed, false);
        world.run(ms(2_000));
        for _ in 0..8 {
            let nodes: Vec<_> = match world.dice.within(0, 4) {
                0 => vec![world.dice.within(1, 4)],
                1 => NODES.into_iter().filter(|node| *node != 1).collect(),
                _ => NODES.to_vec(),
            };
            let broker = world.broker(TIMEOUT_MS as i64, &nodes);
            world.registers_everywhere(broker);
        }
        world.run(ms(1_000));
        Self { world, uncovered: BTreeMap::new(), returning: BTreeSet::new(), judged: 0 }
    }

    fn run(mut self) {
        for _ in 0..600 {
            self.fault();
            self.step(ms(100));
        }
        self.heal();
        for _ in 0..(TIMEOUT_MS / 100 + 80) {
            self.step(ms(100));
        }
        for broker in 0..self.world.brokers.len() {
            let alive = self.world.brokers[broker].alive;
            assert_eq!(
                self.world.everywhere(broker),
                Some(alive),
                "broker {broker} at the end, alive: {alive}"
            );
        }
        let hashes: Vec<_> = NODES.iter().map(|node| self.world.nodes[node].table.state_hash()).collect();
        assert!(hashes.iter().all(|hash| *hash == hashes[0]));
    }

    /// A tenth of a second: brokers speak, time passes, removals are judged.
    fn step(&mut self, time: Duration) {
        let tenths = self.world.now.as_millis() / 100;
        for broker in 0..self.world.brokers.len() {
            match (tenths + broker as u128 * 7) % 100 {
                0 => self.world.registers_everywhere(broker),
                n if n.is_multiple_of(10) => self.world.beats_everywhere(broker),
                _ => {}
            }
        }
        self.world.run(time);
        for broker in 0..self.world.brokers.len() {
            let covered = self.world.brokers[broker].nodes.iter().any(|node| self.hears(*node));
            if covered {
                // What it missed may still be judged by for a moment: reports travel, and clocks ran meanwhile.
                let since = self.uncovered.get(&broker).copied();
                if since.is_some_and(|since| self.world.now > since + ms(TIMEOUT_MS)) {
                    continue;
                }
                self.uncovered.remove(&broker);
            } else {
                self.uncovered.entry(broker).or_insert(self.world.now);
            }
        }
        let Self { world, returning, .. } = self;
        returning.retain(|broker| {
            let Broker { key, version, .. } = &world.brokers[*broker];
            let has = |node| {
                world.nodes[node].table.live(key).map(|live| live.data_version.counter) == Some(*version)
            };
            !NODES.iter().any(has)
        });
        while self.judged < self.world.removed.len() {
            let removed = self.world.removed[self.judged].clone();
            self.judged += 1;
            self.judge(&removed);
        }
    }

    /// What a node hears reaches the leader. One that is linked with a majority, but not with the leader, tells it nothing.
    fn hears(&self, node: u64) -> bool {
        let World { lost, leader, .. } = self.world;
        self.world.in_majority(node)
            && lost == 0
            && leader.is_none_or(|leader| self.world.linked(node, leader))
    }

    fn judge(&mut self, removed: &Removed) {
        let Some(broker) = self.world.brokers.iter().position(|broker| broker.key == removed.key) else {
            return;
        };
        if !self.world.brokers[broker].alive || self.returning.contains(&broker) {
            return;
        }
        let since = self.uncovered.remove(&broker);
        let long = since.is_some_and(|since| removed.at + ms(2_000) > since + ms(TIMEOUT_MS));
        assert!(
            long,
            "living broker {broker} left at {:?}: {removed:?}, unheard since {since:?}",
            removed.at
        );
    }

    fn fault(&mut self) {
        let node = self.world.dice.within(1, 4);
        let broker = usize::try_from(self.world.dice.next()).unwrap() % self.world.brokers.len();
        let kind = self.world.dice.within(0, 400);
        if kind < 74 && std::env::var("LIVENESS_SEED").is_ok() {
            println!(
                "{:?} fault {kind} node {node} broker {broker} leader {:?}",
                self.world.now, self.world.leader
            );
        }
        match kind {
            0..4 => {
                let time = ms(self.world.dice.within(100, 15_000));
                self.world.pause_node(node, time);
            }
            4..6 if self.world.nodes[&node].up => self.world.kill_node(node),
            6..12 if !self.world.nodes[&node].up => self.world.restart_node(node),
            12..18 => {
                let other = self.world.dice.within(1, 4);
                self.world.cut.insert((node, other));
            }
            18..26 => self.world.cut.clear(),
            26..30 => self.world.lost = self.world.dice.within(1, 20),
            30..38 => self.world.lost = 0,
            38..42 => self.world.late = self.world.dice.within(1, 20),
            42..48 => self.world.late = 0,
            48..52 => self.die(broker),
            52..60 if !self.world.brokers[broker].alive => self.rise(broker),
            60..66 => self.world.closes(broker, node, ClosedBy::Us, ms(1)),
            66..72 => self.bounce(broker, node),
            72..74 => {
                self.world.brokers[broker].version += 1;
                self.world.registers_everywhere(broker);
            }
            _ => {}
        }
    }

    fn die(&mut self, broker: usize) {
        if !self.world.brokers[broker].alive {
            return;
        }
        if self.world.dice.chance(60) {
            self.world.kill_broker(broker);
        } else {
            self.world.vanish(broker);
        }
    }

    fn rise(&mut self, broker: usize) {
        self.returning.insert(broker);
        self.world.brokers[broker].alive = true;
        self.world.brokers[broker].version += 1;
        self.world.registers_everywhere(broker);
    }

    /// A connection is replaced: the new one speaks before the old one ends.
    fn bounce(&mut self, broker: usize, node: u64) {
        if !self.world.brokers[broker].alive {
            return;
        }
        let Some(old) = self.world.brokers[broker].sessions.remove(&node) else { return };
        self.world.registers(broker, node);
        if let Some(new) = self.world.brokers[broker].sessions.insert(node, old) {
            self.world.closes(broker, node, ClosedBy::Peer, ms(30));
            self.world.brokers[broker].sessions.insert(node, new);
        }
    }

    fn heal(&mut self) {
        self.world.cut.clear();
        (self.world.lost, self.world.late) = (0, 0);
        for node in NODES {
            if !self.world.nodes[&node].up {
                self.world.restart_node(node);
            }
        }
        while !NODES.iter().all(|node| self.world.runs(*node)) {
            self.step(ms(100));
        }
    }
}
