//! A table that commands are applied to, one entry each, with the invariants checked after every entry.

use crate::command::*;
use crate::outcome::{Event, Outcome};
use crate::route_info::{Applied, BrokerKey, RouteInfo};
use crate::{At, Change, Command, LogId, Position};

/// The table, and what its last entry did.
#[derive(Clone, Default)]
pub(super) struct World {
    pub(super) table: RouteInfo,
    pub(super) events: Vec<Event>,
    pub(super) term: u64,
    pub(super) next: u64,
}

impl World {
    /// Applies one entry with these changes.
    pub(super) fn entry(&mut self, changes: Vec<Change>) -> Vec<Outcome> {
        let commands: Vec<Command> = changes.into_iter().map(command).collect();
        self.next += 1;
        let Applied { outcomes, events } =
            self.table.apply_entry(LogId { term: self.term, index: self.next }, &commands);
        self.events = events;
        self.table.check_invariants().unwrap();
        outcomes
    }

    pub(super) fn run(&mut self, change: Change) -> Outcome {
        self.entry(vec![change]).remove(0)
    }

    pub(super) fn reg(&mut self, registration: Reg) -> Outcome {
        self.run(registration.change())
    }

    /// UNREGISTER_BROKER, the way the leader proposes it.
    pub(super) fn unreg(&mut self, cluster: &str, broker: &str, address: &str) -> Outcome {
        let asked = command(asked(cluster, broker, address));
        match self.table.prepare(asked) {
            crate::route_info::Prepared::Done(outcome) => outcome,
            crate::route_info::Prepared::Propose(command) => self.run(command.change),
        }
    }

    pub(super) fn set(&mut self, name: &str, text: &str) -> Outcome {
        self.run(Change::UpdateSettings(UpdateSettings { properties: vec![(name.into(), text.into())] }))
    }

    pub(super) fn delete(&mut self, topic: &str, cluster: Option<&str>) -> Outcome {
        let cluster = cluster.map(Name::from);
        self.run(Change::DeleteTopic(DeleteTopic { topic: topic.into(), cluster }))
    }

    pub(super) fn write_permission(&mut self, broker: &str, writable: bool) -> Outcome {
        self.run(Change::SetWritePermission(SetWritePermission { broker: broker.into(), writable }))
    }

    /// `name:readQueues/perm` per broker name, or nothing.
    pub(super) fn route(&self, topic: &str) -> String {
        let Some(topic) = self.table.topic(topic) else { return String::new() };
        let queues = topic.queues.iter().map(|(name, q)| format!("{name}:{}/{}", q.read, q.perm));
        queues.collect::<Vec<_>>().join(" ")
    }

    /// `id=address` of a broker name, or nothing.
    pub(super) fn ids(&self, broker: &str) -> String {
        let Some(group) = self.table.group(broker) else { return String::new() };
        group.brokers.iter().map(|(id, address)| format!("{id}={address}")).collect::<Vec<_>>().join(" ")
    }

    /// `cluster:[names]` of all clusters.
    pub(super) fn clusters(&self) -> String {
        let clusters = self.table.clusters().map(|(cluster, names)| {
            format!("{cluster}:{}", names.iter().map(|n| &**n).collect::<Vec<_>>().join(","))
        });
        clusters.collect::<Vec<_>>().join(" ")
    }

    pub(super) fn incarnation(&self, cluster: &str, address: &str) -> Option<Position> {
        self.table.live(&key(cluster, address)).map(|live| live.incarnation)
    }
}

pub(super) fn key(cluster: &str, address: &str) -> BrokerKey {
    BrokerKey { cluster: cluster.into(), address: address.into() }
}

pub(super) fn command(change: Change) -> Command {
    Command { origin: Origin { node: 1, peer: "10.0.0.9:4711".into(), unix_ms: 1_700_000_000_000 }, change }
}

pub(super) fn queues(read: i32) -> QueueConfig {
    QueueConfig { read, write: read, perm: PERM_READ | PERM_WRITE, sys_flag: 0 }
}

pub(super) fn asked(cluster: &str, broker: &str, address: &str) -> Change {
    removal(cluster, broker, address, None, Cause::Asked, None)
}

pub(super) fn removal(
    cluster: &str,
    broker: &str,
    address: &str,
    incarnation: Option<Position>,
    cause: Cause,
    decided_in_term: Option<u64>,
) -> Change {
    Change::RemoveBrokers(RemoveBrokers {
        brokers: vec![Removal {
            cluster: cluster.into(),
            broker: broker.into(),
            address: address.into(),
            incarnation,
            cause,
        }],
        decided_in_term,
    })
}

/// The whole state as bytes, whatever its revision.
pub(super) fn bytes(table: &RouteInfo) -> Vec<Vec<u8>> {
    let mut table = table.clone();
    table.revision = None;
    table.chunks().map(Result::unwrap).collect()
}

/// Applies to a copy, without moving the revision.
pub(super) fn applied(table: &RouteInfo, at: At, command: &Command) -> (RouteInfo, Outcome, Vec<Event>) {
    let mut copy = table.clone();
    let mut events = Vec::new();
    let outcome = copy.apply(at, command, &mut events);
    (copy, outcome, events)
}

/// Builds a registration.
#[derive(Clone)]
pub(super) struct Reg(pub(super) Registration);

impl Reg {
    pub(super) fn new(cluster: &str, broker: &str, id: i64, address: &str) -> Self {
        Self(Registration {
            cluster: cluster.into(),
            broker: broker.into(),
            id,
            address: address.into(),
            ha_address: Some("10.0.0.1:10912".into()),
            zone: None,
            acting_master: None,
            heartbeat_timeout_ms: None,
            data_version: DataVersion { state_version: 0, timestamp: 1_700_000_000_000, counter: 1 },
            filter_servers: Some(vec![]),
            topics: vec![],
            basis: Basis::Whole,
            static_infos: vec![],
        })
    }

    /// Topics with that many queues, all with permission 6.
    pub(super) fn topics(mut self, topics: &[(&str, i32)]) -> Self {
        let config =
            |(topic, read): &(&str, i32)| TopicConfig { topic: (*topic).into(), queues: queues(*read) };
        self.0.topics = topics.iter().map(config).collect();
        self
    }

    pub(super) fn perm(mut self, topic: &str, perm: i32) -> Self {
        let config = self.0.topics.iter_mut().find(|config| &*config.topic == topic).unwrap();
        config.queues.perm = perm;
        self
    }

    pub(super) fn acting(mut self, acting: bool) -> Self {
        self.0.acting_master = Some(acting);
        self
    }

    pub(super) fn version(mut self, counter: i64) -> Self {
        self.0.data_version.counter = counter;
        self
    }

    pub(super) fn state(mut self, state_version: i64) -> Self {
        self.0.data_version.state_version = state_version;
        self
    }

    pub(super) fn filters(mut self, servers: &[&str]) -> Self {
        self.0.filter_servers = Some(servers.iter().map(|s| Name::from(*s)).collect());
        self
    }

    pub(super) fn static_info(mut self, topic: &str, broker: &str, epoch: i64) -> Self {
        self.0.static_infos.push((topic.into(), static_info(topic, broker, epoch)));
        self
    }

    pub(super) fn change(self) -> Change {
        Change::RegisterBroker(Box::new(self.0))
    }
}

pub(super) fn static_info(topic: &str, broker: &str, epoch: i64) -> StaticTopicInfo {
    StaticTopicInfo {
        topic: Some(topic.into()),
        broker: Some(broker.into()),
        total_queues: 4,
        epoch,
        scope: Some("__global__".into()),
        dirty: false,
        current_ids: Some([(0, 0), (1, 1)].into()),
    }
}

/// Two topics: a first registration with exactly one is refused.
pub(super) const TWO: &[(&str, i32)] = &[("t1", 4), ("t2", 8)];
