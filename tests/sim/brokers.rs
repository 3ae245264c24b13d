//! Brokers: processes that register with all nodes and send heartbeats, change, move, sign off, die and come back.

use crate::dice::Dice;
use crate::host::{Clock, Host, Moment};
use crate::invariants::dead_leave::Death;
use crate::network::{Network, Place, client_address};
use crate::node::NODES;
use crate::record::Record;
use crate::talk::Talk;
use raft::NodeId;
use raft_namesrv::wire::RemotingCommand;
use raft_namesrv::wire::codes::request as code;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use storage::route_info::BrokerKey;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout, timeout_at};

/// Between two heartbeats.
const BEAT: Duration = Duration::from_millis(1_000);
/// A registration goes with every so many heartbeats.
const BEATS_PER_REGISTRATION: u64 = 3;
/// How long a broker waits for a connection, and for the answer to a heartbeat.
const PATIENCE: Duration = Duration::from_secs(3);
/// And to a registration.
const REGISTRATION_PATIENCE: Duration = Duration::from_secs(16);
/// Where the first broker is; those behind follow, and behind them the other places that they come back at.
const FIRST_PLACE: Place = 10;
/// Brokers at most, and places of each.
const BROKERS_MAX: u64 = 10;
const PLACES_OF_ONE: u64 = 9;
/// Of 100 that come back, so many do at another place, and speak to some of the nodes only.
const ELSEWHERE_PERCENT: u64 = 40;
const CLUSTER: &str = "C";

/// A broker, whether it runs or not.
pub(crate) struct Broker {
    seed: u64,
    number: u64,
    pub(crate) place: Place,
    pub(crate) key: BrokerKey,
    /// To which it speaks.
    nodes: Vec<NodeId>,
    /// How often its address has changed.
    moves: u64,
    pub(crate) timeout: Duration,
    process: Option<Process>,
    processes: u64,
    /// What is left of a process that signs off.
    leaving: Vec<JoinHandle<()>>,
}

struct Process {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

/// What the tasks of a process share.
struct Shared {
    key: BrokerKey,
    name: String,
    id: &'static str,
    place: Place,
    timeout_ms: u128,
    /// It signs off and ends.
    leaving: AtomicBool,
    /// Of its topics.
    version: AtomicU64,
    /// Connections that it shall replace.
    bounce: Mutex<BTreeSet<NodeId>>,
    /// Its whole outside.
    clock: Clock,
    network: Arc<Network>,
    record: Arc<Record>,
}

fn key_of(number: u64, moves: u64) -> BrokerKey {
    BrokerKey { cluster: CLUSTER.into(), address: format!("10.1.{moves}.{number}:10911").into() }
}

impl Broker {
    pub(crate) fn new(seed: u64, number: u64, timeout: Duration) -> Self {
        let (place, key) = (FIRST_PLACE + number, key_of(number, 0));
        let nodes = NODES.to_vec();
        let (moves, processes) = (0, 0);
        Self {
            seed,
            number,
            place,
            key,
            nodes,
            moves,
            timeout,
            process: None,
            processes,
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
        seen.dead.deaths.remove(&self.key);
        seen.living.born(now, self.key.clone(), self.place, self.timeout);
        seen.say(now, || {
            format!("broker {} starts at {} and speaks to {:?}", self.key.address, self.place, self.nodes)
        });
        drop(seen);
        let shared = Arc::new(Shared {
            key: self.key.clone(),
            name: format!("b{}", self.number / 2),
            id: if self.number.is_multiple_of(2) { "0" } else { "1" },
            place: self.place,
            timeout_ms: self.timeout.as_millis(),
            leaving: AtomicBool::new(false),
            version: AtomicU64::new(self.processes * 1_000),
            bounce: Mutex::default(),
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

    /// Where its next process is, and to whom that speaks.
    fn settles(&mut self) {
        let mut dice = Dice::of(self.seed, "place", self.number << 32 | self.processes);
        self.nodes = NODES.to_vec();
        if self.processes > 1 && dice.chance(ELSEWHERE_PERCENT) {
            self.place = FIRST_PLACE + self.number + BROKERS_MAX * (1 + self.processes % (PLACES_OF_ONE - 1));
            let least = if dice.chance(60) { 1 } else { 2 };
            while self.nodes.len() > least {
                self.nodes.remove(usize::try_from(dice.within(0, self.nodes.len() as u64)).unwrap());
            }
        }
    }

    /// Ends: `seen`, with its connections closed, or with its whole machine.
    pub(crate) fn die(&mut self, now: Moment, seen: bool) {
        let Some(Process { shared, tasks }) = self.process.take() else { return };
        if !seen {
            shared.network.power_off(self.place);
        }
        tasks.iter().for_each(JoinHandle::abort);
        let seen = seen && shared.network.tells_at_once(self.place);
        let mut record = shared.record.lock();
        record.say(now, || format!("broker {} dies, seen: {seen}", self.key.address));
        record.living.died(&self.key);
        record.dead.deaths.insert(self.key.clone(), Death { at: now, timeout: self.timeout, seen });
    }

    /// Signs off at all nodes that it reaches, and ends.
    pub(crate) fn leaves(&mut self, now: Moment) {
        let Some(Process { shared, tasks }) = self.process.take() else { return };
        shared.leaving.store(true, Ordering::Relaxed);
        self.leaving = tasks;
        let mut record = shared.record.lock();
        record.say(now, || format!("broker {} leaves", self.key.address));
        record.living.died(&self.key);
        // Until then it may speak.
        let at = now + BEAT + PATIENCE;
        record.dead.deaths.insert(self.key.clone(), Death { at, timeout: self.timeout, seen: false });
    }

    /// From now on it has another address; it must not run.
    pub(crate) fn moves(&mut self) {
        self.moves += 1;
        self.key = key_of(self.number, self.moves);
    }

    /// Its topics change.
    pub(crate) fn changes(&self) {
        if let Some(process) = &self.process {
            process.shared.version.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It replaces its connection to a node.
    pub(crate) fn bounces(&self, node: NodeId) {
        if let Some(process) = &self.process {
            process.shared.bounce.lock().unwrap().insert(node);
        }
    }
}

impl Shared {
    async fn speak_to(self: Arc<Self>, node: NodeId, mut dice: Dice) {
        sleep(dice.ms(0, 400)).await;
        loop {
            let address = client_address(node);
            let connecting =
                self.network.connect(self.place, self.clock, &address, Some(REGISTRATION_PATIENCE));
            if let Ok(Ok(stream)) = timeout(PATIENCE, connecting).await {
                // How it ended does not matter: there will be another.
                let _ = self.speak(node, Talk::new(stream)).await;
                self.record.lock().living.ended(self.clock.now(), &self.key, node);
            }
            if self.leaving.load(Ordering::Relaxed) {
                return;
            }
            sleep(dice.ms(100, 400)).await;
        }
    }

    async fn speak(&self, node: NodeId, mut talk: Talk) -> io::Result<()> {
        let mut waiting: BTreeMap<i32, Waiting> = BTreeMap::new();
        let (mut beats, mut version) = (0_u64, 0);
        let mut next = self.clock.now();
        loop {
            let now = self.clock.now();
            if now >= next {
                next = now + BEAT;
                if self.leaving.load(Ordering::Relaxed) {
                    let request = talk.request(code::UNREGISTER_BROKER, &self.identity());
                    return timeout(PATIENCE, talk.ask(&request)).await.map_err(io::Error::other)?.map(drop);
                }
                if waiting.values().any(|asked| asked.is_late(now))
                    || self.bounce.lock().unwrap().remove(&node)
                {
                    return Ok(());
                }
                let changed = version != self.version.load(Ordering::Relaxed);
                let registering = waiting.values().any(|asked| asked.registration);
                let registration = !registering && (changed || beats.is_multiple_of(BEATS_PER_REGISTRATION));
                beats += 1;
                let request = if registration {
                    version = self.version.load(Ordering::Relaxed);
                    self.register(&mut talk, version)
                } else {
                    talk.request(code::BROKER_HEARTBEAT, &self.identity())
                };
                waiting.insert(request.opaque, Waiting { at: now, registration });
                talk.send(&request).await?;
            }
            let Ok(answer) = timeout_at(self.clock.instant(next), talk.next()).await else { continue };
            let answer = answer?;
            if let Some(asked) = waiting.remove(&answer.opaque)
                && asked.registration
                && answer.code == 0
            {
                let mut seen = self.record.lock();
                seen.answered(asked.at, self.clock.now(), node, &self.key);
                seen.living.registered(asked.at, &self.key, node);
            }
        }
    }

    fn identity(&self) -> [(&str, &str); 4] {
        [
            ("brokerName", &self.name),
            ("brokerAddr", &self.key.address),
            ("clusterName", CLUSTER),
            ("brokerId", self.id),
        ]
    }

    fn register(&self, talk: &mut Talk, version: u64) -> RemotingCommand {
        let body = self.body(version);
        let crc = (crc32fast::hash(&body) & 0x7FFF_FFFF).to_string();
        let timeout_ms = self.timeout_ms.to_string();
        let command = talk.request(code::REGISTER_BROKER, &self.identity());
        let command = command.with("compressed", "false").with("bodyCrc32", &crc);
        command.with("heartbeatTimeoutMillis", &timeout_ms).with_body(body)
    }

    /// A few topics; how many queues one of them has tells the version.
    fn body(&self, version: u64) -> Vec<u8> {
        let topic = |number: u64| {
            let queues = if number == 0 { version % 16 + 1 } else { 4 };
            let name = format!("{}_t{number}", self.name);
            let config = json!({
                "attributes": {}, "order": false, "perm": 6, "readQueueNums": queues,
                "topicFilterType": "SINGLE_TAG", "topicName": name, "topicSysFlag": 0,
                "writeQueueNums": queues,
            });
            (name, config)
        };
        let topics: serde_json::Map<String, Value> = (0..3).map(topic).collect();
        let wrapper = json!({
            "dataVersion": {"counter": version, "stateVersion": 0, "timestamp": 1_700_000_000_000_u64},
            "topicConfigTable": topics, "topicQueueMappingDetailMap": {}, "topicQueueMappingInfoMap": {},
        });
        json!({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}).to_string().into_bytes()
    }
}

/// A request without an answer.
struct Waiting {
    at: Moment,
    registration: bool,
}

impl Waiting {
    fn is_late(&self, now: Moment) -> bool {
        now > self.at + if self.registration { REGISTRATION_PATIENCE } else { PATIENCE }
    }
}
