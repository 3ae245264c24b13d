//! What goes wrong in a run, and when it is over again.

use crate::dice::Dice;
use crate::host::Moment;
use crate::network::Place;
use crate::node::NODES;
use crate::world::World;
use raft::NodeId;
use std::time::Duration;

/// Between two chances for a fault.
const TICK: Duration = Duration::from_millis(100);

/// Ends a fault.
#[derive(Debug, Clone, Copy)]
enum Undo {
    Heal(Place, Place),
    Start(NodeId),
    Broker(usize),
    Weather(u64),
}

pub(crate) struct Faults {
    dice: Dice,
    next: Moment,
    /// Of 1,000 ticks, so many have a fault.
    permille: u64,
    /// Nodes and the network between them have faults too.
    nodes: bool,
    undo: Vec<(Moment, Undo)>,
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice::of(seed, "faults", 0);
        let permille = dice.pick(&[20, 60, 120]).unwrap();
        let nodes = dice.chance(80);
        Self { dice, next: Moment::ZERO, permille, nodes, undo: Vec::new() }
    }

    pub(crate) fn step(&mut self, world: &mut World) {
        if world.now < self.next {
            return;
        }
        self.next = world.now + TICK;
        let (over, undo) = self.undo.iter().partition(|(at, _)| *at <= world.now);
        self.undo = undo;
        let over: Vec<(Moment, Undo)> = over;
        over.into_iter().for_each(|(_, undo)| undo.now(world));
        if self.dice.within(0, 1_000) < self.permille {
            if self.nodes && self.dice.chance(55) {
                self.of_nodes(world);
            } else {
                self.of_brokers(world);
            }
        }
    }

    /// The last fault is over.
    pub(crate) fn end(&mut self, world: &mut World) {
        world.say(|| "no more faults".into());
        self.undo.sort_by_key(|(at, _)| *at);
        std::mem::take(&mut self.undo).into_iter().for_each(|(_, undo)| undo.now(world));
        world.network.heal();
        for node in &mut world.nodes {
            node.paused_until = world.now;
        }
    }

    fn later(&mut self, world: &World, after: Duration, undo: Undo) {
        self.undo.push((world.now + after, undo));
    }

    fn of_nodes(&mut self, world: &mut World) {
        let (node, other) = (self.dice.pick(&NODES).unwrap(), self.dice.pick(&NODES).unwrap());
        let at = NODES.iter().position(|id| *id == node).unwrap();
        let kind = self.dice.within(0, 10);
        let takes = if self.dice.chance(80) { self.dice.ms(100, 3_000) } else { self.dice.ms(3_000, 12_000) };
        world.say(|| format!("fault {kind} of node {node}, other {other}, for {takes:?}"));
        match kind {
            0..=1 => world.nodes[at].paused_until = world.now + takes,
            2..=3 if world.nodes[at].is_up() => {
                world.nodes[at].kill();
                self.later(world, takes, Undo::Start(node));
            }
            4 if world.nodes[at].is_up() => {
                world.nodes[at].power_cut(self.dice.next());
                self.later(world, takes, Undo::Start(node));
            }
            5..=6 if node != other => self.cut(world, node, other, takes, false),
            7 if node != other => self.cut(world, node, other, takes, true),
            8 => {
                let both = self.dice.chance(60);
                for other in NODES.into_iter().filter(|other| *other != node) {
                    self.cut(world, node, other, takes, both);
                }
            }
            9 => {
                let before = world.network.lock().weather.lost_permille;
                world.network.lock().weather.lost_permille = self.dice.within(20, 200);
                self.later(world, takes, Undo::Weather(before.min(10)));
            }
            _ => {}
        }
    }

    /// From `a` to `b`, and back.
    fn cut(&mut self, world: &World, a: Place, b: Place, takes: Duration, both: bool) {
        world.network.cut(a, b);
        if both {
            world.network.cut(b, a);
        }
        self.later(world, takes, Undo::Heal(a, b));
    }

    fn of_brokers(&mut self, world: &mut World) {
        let broker = usize::try_from(self.dice.within(0, world.brokers.len() as u64)).unwrap();
        let node = self.dice.pick(&NODES).unwrap();
        let kind = self.dice.within(0, 12);
        let takes = self.dice.ms(300, 13_000);
        world.say(|| format!("fault {kind} of broker {broker}, node {node}, for {takes:?}"));
        let (now, place) = (world.now, world.brokers[broker].place);
        let lives = world.brokers[broker].lives();
        match kind {
            0..=2 if lives => {
                world.brokers[broker].die(now, kind < 2);
                self.later(world, takes, Undo::Broker(broker));
            }
            3 if lives => {
                world.brokers[broker].die(now, true);
                world.brokers[broker].moves();
                self.later(world, takes.min(Duration::from_secs(1)), Undo::Broker(broker));
            }
            4..=6 => world.brokers[broker].changes(),
            7..=8 => world.brokers[broker].bounces(node),
            9 => {
                let both = self.dice.chance(50);
                self.cut(world, place, node, takes, both);
            }
            10 => {
                let both = self.dice.chance(50);
                self.cut(world, node, place, takes, both);
            }
            11 => NODES.into_iter().for_each(|node| self.cut(world, place, node, takes, true)),
            _ => {}
        }
    }
}

impl Undo {
    fn now(self, world: &mut World) {
        world.say(|| format!("{self:?}"));
        match self {
            Self::Heal(a, b) => world.network.heal_between(a, b),
            Self::Start(node) => {
                let at = NODES.iter().position(|id| *id == node).unwrap();
                if !world.nodes[at].is_up() {
                    world.nodes[at].start(world.now);
                }
            }
            Self::Broker(broker) => {
                if !world.brokers[broker].lives() {
                    let World { brokers, now, outside, network, record, .. } = world;
                    brokers[broker].start(*now, outside, network, record);
                }
            }
            Self::Weather(permille) => world.network.lock().weather.lost_permille = permille,
        }
    }
}
