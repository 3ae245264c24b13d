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
/// After this a process that was asked to stop is killed.
const STOPS_WITHIN: Duration = Duration::from_secs(3);

/// Disks are slow from so long before a silent broker's timeout on, for so long.
const SLOW_BEFORE: Duration = Duration::from_millis(1_200);
const SLOW_FOR: Duration = Duration::from_millis(2_000);

/// Behind one that takes its whole time: what was wrong shows within this.
const GOES_ON_FOR: Duration = Duration::from_millis(2_500);

/// Ends a fault, or goes on with it.
#[derive(Debug, Clone, Copy)]
enum Undo {
    Heal(Place, Place),
    Start(NodeId),
    Kill(NodeId),
    /// It leads, if it can.
    Leads(NodeId),
    Broker(usize),
    Bounce(usize, NodeId, bool),
    Weather(u64),
    SlowDisks(Duration),
    Pause(NodeId, Duration),
    Unplug(NodeId),
    PlugIn(NodeId),
}

pub(crate) struct Faults {
    dice: Dice,
    next: Moment,
    /// Of 1,000 ticks, so many have a fault.
    permille: u64,
    /// Nodes and the network between them have faults too.
    nodes: bool,
    undo: Vec<(Moment, Undo)>,
    /// One that must take its whole time goes on until then.
    lasts_until: Moment,
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice::of(seed, "faults", 0);
        let permille = dice.pick(&[20, 60, 120]).unwrap();
        let nodes = dice.chance(80);
        Self { dice, next: Moment::ZERO, permille, nodes, undo: Vec::new(), lasts_until: Moment::ZERO }
    }

    pub(crate) fn lasts_until(&self) -> Moment {
        self.lasts_until
    }

    /// No new faults; those that there are go on.
    pub(crate) fn go_on(&mut self, world: &mut World) {
        let (over, undo) = self.undo.iter().partition(|(at, _)| *at <= world.now);
        self.undo = undo;
        let over: Vec<(Moment, Undo)> = over;
        over.into_iter().for_each(|(_, undo)| undo.now(world));
    }

    pub(crate) fn step(&mut self, world: &mut World) {
        if world.now < self.next {
            return;
        }
        self.next = world.now + TICK;
        self.go_on(world);
        if self.dice.within(0, 1_000) < self.permille {
            if self.nodes && self.dice.chance(50) {
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
        world.disks_are_slow_for(Duration::ZERO);
        for node in &mut world.nodes {
            node.paused_until = world.now;
        }
    }

    fn later(&mut self, world: &World, after: Duration, undo: Undo) {
        self.undo.push((world.now + after, undo));
    }

    fn of_nodes(&mut self, world: &mut World) {
        let leader = world.record.lock().reachability.leader().filter(|_| self.dice.chance(40));
        let node = leader.unwrap_or_else(|| self.dice.pick(&NODES).unwrap());
        let other = self.dice.pick(&NODES).unwrap();
        let kind = self.dice.within(0, 19);
        let takes = if self.dice.chance(80) { self.dice.ms(100, 3_000) } else { self.dice.ms(3_000, 12_000) };
        world.say(|| format!("fault {kind} of node {node}, other {other}, for {takes:?}"));
        match kind {
            0..=1 => world.node(node).paused_until = world.now + takes,
            2..=3 => self.kill(world, node, takes),
            4 if world.node(node).is_up() => {
                let seed = self.dice.next();
                world.node(node).power_cut(seed);
                self.later(world, takes, Undo::Start(node));
            }
            5 if node != other => self.cut(world, node, other, takes, false),
            6 if node != other => self.cut(world, node, other, takes, true),
            7..=8 => self.cut_off(world, node, takes),
            9 => {
                let before = world.network.lock().weather.lost_permille;
                world.network.lock().weather.lost_permille = self.dice.within(20, 200);
                self.later(world, takes, Undo::Weather(before.min(10)));
            }
            // Longer than any broker's timeout: no broker may go for that.
            10 => NODES.iter().for_each(|id| {
                world.node(*id).paused_until = world.now + takes + self.dice.ms(2_000, 8_000);
            }),
            11 => NODES.iter().for_each(|id| self.kill(world, *id, takes)),
            12 => NODES.iter().for_each(|id| world.node(*id).transfers_leadership_to(node)),
            13 if world.node(node).is_up() => {
                world.node(node).stops();
                self.later(world, STOPS_WITHIN, Undo::Kill(node));
                self.later(world, STOPS_WITHIN + takes, Undo::Start(node));
            }
            // It has no majority, for longer than any broker's timeout.
            14 => others(node).for_each(|other| {
                let longer = takes + self.dice.ms(2_000, 8_000);
                self.kill(world, other, longer);
            }),
            15 => others(node).for_each(|other| {
                world.node(other).paused_until = world.now + takes + self.dice.ms(2_000, 8_000);
            }),
            // Once is enough: it takes long.
            16..=17 if self.lasts_until.is_zero() => self.unplug(world, node),
            18 if self.lasts_until.is_zero() => self.pause_while_brokers_close(world, node),
            _ => {}
        }
    }

    fn kill(&mut self, world: &mut World, node: NodeId, takes: Duration) {
        if world.node(node).is_up() {
            world.node(node).kill();
            let longer = self.dice.ms(0, 500);
            self.later(world, takes + longer, Undo::Start(node));
            if self.dice.chance(40) {
                let after = takes + longer + self.dice.ms(200, 2_000);
                self.later(world, after, Undo::Leads(node));
            }
        }
    }

    /// A node is cut off from all others; it may still hear or still speak.
    fn cut_off(&mut self, world: &World, node: NodeId, takes: Duration) {
        let (both, speaks) = (self.dice.chance(50), self.dice.chance(50));
        for other in others(node) {
            let (from, to) = if speaks { (other, node) } else { (node, other) };
            self.cut(world, from, to, takes, both);
        }
    }

    /// A node, or each of them, is cut off from everything: mostly for longer than a user time-out.
    fn unplug(&mut self, world: &mut World, node: NodeId) {
        let takes =
            if self.dice.chance(70) { self.dice.ms(11_000, 15_000) } else { self.dice.ms(5_000, 9_000) };
        let after = self.brokers_settle_at(world, node);
        let nodes = if self.dice.chance(50) { NODES.to_vec() } else { vec![node] };
        for node in nodes {
            self.later(world, after, Undo::Unplug(node));
            self.later(world, after + takes, Undo::PlugIn(node));
        }
        self.lasts_until = world.now + after + takes + GOES_ON_FOR;
    }

    /// It stands still, and brokers that reach no other node close and come again meanwhile.
    fn pause_while_brokers_close(&mut self, world: &mut World, node: NodeId) {
        let takes = self.dice.ms(2_500, 9_000);
        let after = self.brokers_settle_at(world, node);
        for broker in 0..world.brokers.len() {
            let (when, overlaps) = (after + self.dice.ms(0, 1_000), self.dice.chance(30));
            self.later(world, when, Undo::Bounce(broker, node, overlaps));
        }
        self.later(world, after, Undo::Pause(node, takes));
        self.lasts_until = world.now + after + takes + GOES_ON_FOR;
    }

    /// Some brokers begin again and speak to one node only. Gives until when they do.
    fn brokers_settle_at(&mut self, world: &mut World, node: NodeId) -> Duration {
        let now = world.now;
        for broker in 0..world.brokers.len() {
            if self.dice.chance(40) {
                world.brokers[broker].die(now, true);
                world.brokers[broker].will_speak_to(node);
                let after = self.dice.ms(200, 600);
                self.later(world, after, Undo::Broker(broker));
            }
        }
        self.dice.ms(3_000, 4_500)
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
        let kind = self.dice.within(0, 18);
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
            4..=5 => world.brokers[broker].changes(),
            6..=7 => world.brokers[broker].bounces(node, self.dice.chance(50)),
            8 => {
                let overlaps = self.dice.chance(50);
                NODES.into_iter().for_each(|node| world.brokers[broker].bounces(node, overlaps));
            }
            9 => {
                let both = self.dice.chance(50);
                self.cut(world, place, node, takes, both);
            }
            10 => {
                let both = self.dice.chance(50);
                self.cut(world, node, place, takes, both);
            }
            // It is heard again just before, when, or after it is given up, perhaps with other topics.
            11 | 14 => {
                let takes = world.brokers[broker].timeout.saturating_sub(Duration::from_millis(1_300))
                    + self.dice.ms(0, 1_600);
                NODES.into_iter().for_each(|node| self.cut(world, place, node, takes, true));
                if self.dice.chance(50) {
                    world.brokers[broker].changes();
                }
                // Then what is decided on it takes its time.
                if self.dice.chance(50) {
                    let begins = world.brokers[broker].timeout.saturating_sub(SLOW_BEFORE);
                    self.later(world, begins, Undo::SlowDisks(SLOW_FOR));
                }
            }
            // It reaches one node only.
            12 => others(node).for_each(|node| self.cut(world, place, node, takes, true)),
            13 if lives => {
                world.brokers[broker].leaves(now);
                self.later(world, takes, Undo::Broker(broker));
            }
            17 if lives => {
                world.brokers[broker].hangs(now);
                self.later(world, takes, Undo::Broker(broker));
            }
            // It replaces all of its connections, one after the other.
            15..=16 => {
                let overlaps = self.dice.chance(50);
                for node in NODES {
                    let after = self.dice.ms(0, 3_000);
                    self.later(world, after, Undo::Bounce(broker, node, overlaps));
                }
            }
            _ => {}
        }
    }
}

fn others(node: NodeId) -> impl Iterator<Item = NodeId> {
    NODES.into_iter().filter(move |other| *other != node)
}

impl Undo {
    fn now(self, world: &mut World) {
        world.say(|| format!("{self:?}"));
        let now = world.now;
        match self {
            Self::Heal(a, b) => world.network.heal_between(a, b),
            Self::Start(node) if !world.node(node).is_up() => world.node(node).start(now),
            Self::Kill(node) if world.node(node).is_up() => world.node(node).kill(),
            Self::Broker(broker) if !world.brokers[broker].lives() => {
                let World { brokers, now, outside, network, record, .. } = world;
                brokers[broker].start(*now, outside, network, record);
            }
            Self::Leads(node) => world.nodes.iter().for_each(|other| other.transfers_leadership_to(node)),
            Self::Bounce(broker, node, overlaps) => world.brokers[broker].bounces(node, overlaps),
            Self::SlowDisks(lasts) => world.disks_are_slow_for(lasts),
            Self::Weather(permille) => world.network.lock().weather.lost_permille = permille,
            Self::Pause(node, takes) => world.node(node).paused_until = now + takes,
            Self::Unplug(node) => world.network.unplug(node),
            Self::PlugIn(node) => world.network.plug_in(node),
            Self::Start(_) | Self::Kill(_) | Self::Broker(_) => {}
        }
    }
}
