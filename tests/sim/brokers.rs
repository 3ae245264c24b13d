//! Brokers: processes that register with all nodes and send heartbeats, change, move, sign off, die and come back.

mod speak;

use crate::dice::Dice;
use crate::host::{Clock, Host, Moment};
use crate::identity::Identity;
use crate::invariants::dead_leave::{Death, How};
use crate::network::{Network, Place};
use crate::node::NODES;
use crate::record::Record;
use raft::NodeId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use storage::route_info::BrokerKey;
use tokio::task::JoinHandle;

/// Between two heartbeats.
const BEAT: Duration = Duration::from_millis(1_000);
/// How long a broker waits for a connection, and for the answer to a heartbeat.
const PATIENCE: Duration = Duration::from_secs(3);
/// Where the first broker is; those behind follow, and behind them the other places that they come back at.
const FIRST_PLACE: Place = 10;
/// Brokers at most, and places of each.
const BROKERS_MAX: u64 = 10;
const PLACES_OF_ONE: u64 = 9;
/// Of 100 that come back, so many do at another place, and speak to some of the nodes only.
const OTHER_PLACE_PERCENT: u64 = 40;
const CLUSTER: &str = "C";
/// Where brokers listen, the second of a process too.
const PORT: u16 = 10_911;
const SECOND_PORT: u16 = 10_921;
/// When nodes have found out that a machine vanished: user time-out and margin.
const FOUND_OUT_WITHIN: Duration = Duration::from_secs(12);

/// The name that two brokers share, a master and its slave.
pub(crate) fn name_of(number: u64) -> String {
    format!("b{}", number / 2)
}

/// A broker, whether it runs or not.
pub(crate) struct Broker {
    seed: u64,
    number: u64,
    pub(crate) place: Place,
    /// Of its process: a second one speaks over the same connections.
    brokers: Vec<Identity>,
    /// To which it speaks.
    nodes: Vec<NodeId>,
    /// To which alone its next process speaks, if that is settled.
    only: Option<NodeId>,
    /// How often its address has changed.
    moves: u64,
    pub(crate) timeout: Duration,
    process: Option<Process>,
    processes: u64,
    /// Until then nodes may have sessions of a former process whose machine vanished: they hold the broker.
    vanished_until: Moment,
    /// What is left of a process that signs off.
    leaving: Vec<JoinHandle<()>>,
}

struct Process {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

/// What the tasks of a process share.
struct Shared {
    /// All brokers of the process; each connection speaks for all of them.
    brokers: Vec<Identity>,
    place: Place,
    /// It signs off and ends.
    leaving: AtomicBool,
    /// It says nothing any more, and its connections stay.
    hung: AtomicBool,
    /// Of its topics.
    version: AtomicU64,
    /// Connections that it shall replace, and whether the new one opens before the old one ends.
    bounce: Mutex<BTreeMap<NodeId, bool>>,
    connections: AtomicU64,
    /// Its whole outside.
    clock: Clock,
    network: Arc<Network>,
    record: Arc<Record>,
}

fn key_of(number: u64, moves: u64, port: u16) -> BrokerKey {
    BrokerKey { cluster: CLUSTER.into(), address: format!("10.1.{moves}.{number}:{port}").into() }
}

impl Broker {
    /// `pair`: two brokers in one process.
    pub(crate) fn new(seed: u64, number: u64, timeout: Duration, pair: bool) -> Self {
        let acting = |name: u64| Dice::of(seed, "acting", name).chance(60);
        let first = Identity {
            key: key_of(number, 0, PORT),
            name: name_of(number),
            id: if number.is_multiple_of(2) { "0" } else { "1" },
            acting: acting(number / 2),
            timeout_ms: timeout.as_millis(),
        };
        let second = Identity {
            key: key_of(number, 0, SECOND_PORT),
            name: format!("p{number}"),
            id: "0",
            ..first.clone()
        };
        Self {
            seed,
            number,
            place: FIRST_PLACE + number,
            brokers: if pair { vec![first, second] } else { vec![first] },
            nodes: NODES.to_vec(),
            only: None,
            moves: 0,
            timeout,
            process: None,
            processes: 0,
            vanished_until: Moment::ZERO,
            leaving: Vec::new(),
        }
    }

    pub(crate) fn lives(&self) -> bool {
        self.process.is_some()
    }

    pub(crate) fn start(&mut self, now: Moment, host: &Host, network: &Arc<Network>, record: &Arc<Record>) {
        self.processes += 1;
        self.leaving.drain(..).for_each(|task| task.abort());
        self.settles();
        network.power_on(self.place);
        let mut seen = record.lock();
        for broker in &self.brokers {
            seen.dead.deaths.remove(&broker.key);
            seen.living.started(now, broker.key.clone(), self.place, self.timeout);
            seen.say(now, || {
                format!(
                    "broker {} starts at {} and speaks to {:?}",
                    broker.key.address, self.place, self.nodes
                )
            });
        }
        drop(seen);
        let shared = Arc::new(Shared {
            brokers: self.brokers.clone(),
            place: self.place,
            leaving: AtomicBool::new(false),
            hung: AtomicBool::new(false),
            version: AtomicU64::new(self.processes * 1_000),
            bounce: Mutex::default(),
            connections: AtomicU64::new(0),
            clock: host.clock,
            network: Arc::clone(network),
            record: Arc::clone(record),
        });
        let speaks = |node: &NodeId| {
            let dice = Dice::of(self.seed, "broker", self.number << 32 | self.processes << 8 | node);
            host.spawn(Arc::clone(&shared).speak_to(*node, dice))
        };
        let tasks = self.nodes.iter().map(speaks).collect();
        self.process = Some(Process { shared, tasks });
    }

    /// Where its next process is, and to which nodes that connects.
    fn settles(&mut self) {
        let mut dice = Dice::of(self.seed, "place", self.number << 32 | self.processes);
        self.nodes = NODES.to_vec();
        if self.processes > 1 && dice.chance(OTHER_PLACE_PERCENT) {
            self.place = FIRST_PLACE + self.number + BROKERS_MAX * (1 + self.processes % (PLACES_OF_ONE - 1));
            let least = if dice.chance(60) { 1 } else { 2 };
            while self.nodes.len() > least {
                self.nodes.remove(usize::try_from(dice.within(0, self.nodes.len() as u64)).unwrap());
            }
        }
        if let Some(only) = self.only.take() {
            self.nodes = vec![only];
        }
    }

    /// Its next process speaks to that node alone.
    pub(crate) fn will_speak_to(&mut self, only: NodeId) {
        self.only = Some(only);
    }

    /// Ends: `seen`, with its connections closed, or with its whole machine.
    pub(crate) fn die(&mut self, now: Moment, seen: bool) {
        let Some(Process { shared, tasks }) = self.process.take() else { return };
        if !seen {
            shared.network.power_off(self.place);
        }
        tasks.iter().for_each(JoinHandle::abort);
        let formerly_until = self.vanished_until;
        if !seen {
            self.vanished_until = now + FOUND_OUT_WITHIN;
        }
        let noticed = shared.network.tells_at_once(self.place);
        let mut record = shared.record.lock();
        let noticed = noticed && record.reachability.ends_count(now);
        for broker in &self.brokers {
            // A broker that has not registered since it connected has no session whose end counts.
            let strong = record.living.died(&broker.key).is_some_and(|life| life.is_strong());
            let how = match (noticed && strong, seen) {
                (true, true) if now >= formerly_until => How::Seen,
                (true, true) => How::Vanished,
                (true, false) => How::Vanished,
                (false, _) => How::Silent,
            };
            record.say(now, || format!("broker {} dies: {how:?}", broker.key.address));
            record.dead.deaths.insert(broker.key.clone(), self.death(now, how, &shared.network));
        }
    }

    fn death(&self, at: Moment, how: How, network: &Network) -> Death {
        Death { at, timeout: self.timeout, how, place: self.place, made: network.made() }
    }

    /// Falls silent; its connections stay.
    pub(crate) fn hangs(&mut self, now: Moment) {
        let Some(Process { shared, tasks }) = self.process.take() else { return };
        shared.hung.store(true, Ordering::Relaxed);
        self.leaving = tasks;
        let mut record = shared.record.lock();
        for broker in &self.brokers {
            record.say(now, || format!("broker {} hangs", broker.key.address));
            record.living.died(&broker.key);
            record.dead.deaths.insert(broker.key.clone(), self.death(now, How::Silent, &shared.network));
        }
    }

    /// Signs off at all nodes that it reaches, and ends.
    pub(crate) fn leaves(&mut self, now: Moment) {
        let Some(Process { shared, tasks }) = self.process.take() else { return };
        shared.leaving.store(true, Ordering::Relaxed);
        self.leaving = tasks;
        let mut record = shared.record.lock();
        // Until then it may speak.
        let at = now + BEAT + PATIENCE;
        for broker in &self.brokers {
            record.say(now, || format!("broker {} leaves", broker.key.address));
            record.living.died(&broker.key);
            record.dead.deaths.insert(broker.key.clone(), self.death(at, How::Silent, &shared.network));
        }
    }

    /// From now on it has another address; it must not run.
    pub(crate) fn moves(&mut self) {
        self.moves += 1;
        for (broker, port) in self.brokers.iter_mut().zip([PORT, SECOND_PORT]) {
            broker.key = key_of(self.number, self.moves, port);
        }
    }

    /// Its topics change.
    pub(crate) fn changes(&self) {
        if let Some(process) = &self.process {
            process.shared.version.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It replaces its connection to a node. `overlaps`: the new one speaks before the old one ends.
    pub(crate) fn bounces(&self, node: NodeId, overlaps: bool) {
        if let Some(process) = &self.process {
            process.shared.bounce.lock().unwrap().insert(node, overlaps);
        }
    }

    /// The brokers of its process.
    pub(crate) fn keys(&self) -> impl Iterator<Item = BrokerKey> {
        self.brokers.iter().map(|broker| broker.key.clone())
    }

    /// How many brokers its process has.
    pub(crate) fn count(&self) -> usize {
        self.brokers.len()
    }
}
