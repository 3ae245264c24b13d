//! Bytes that must not change: stored and sent values of every kind, against `golden.txt`.
//!
//! When a test here fails, a log or a snapshot of an earlier version no longer reads the same. Raise the format
//! number and add an upgrade; only a new variant adds lines.

use super::world::{Reg, World, asked, command, queues};
use crate::command::*;
use crate::outcome::*;
use crate::route_info::{Loader, StateHash};
use crate::{Change, Position, format};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

const GOLDEN: &str = include_str!("golden.txt");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = (0..text.len()).step_by(2);
    digits.map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// A stored value.
pub(in crate::route_info) fn stored(name: &str) -> Vec<u8> {
    unhex(golden(name))
}

/// Encoded entries: one of many commands, and one of each kind.
pub(in crate::route_info) fn entries() -> Vec<Vec<u8>> {
    let one = |(name, _): &(&str, Change)| [&[format::FORMAT, 1], &stored(name)[1..]].concat();
    changes().iter().map(one).chain([stored("batch")]).collect()
}

fn golden(name: &str) -> &'static str {
    let mut lines = GOLDEN.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(key, _)| *key == name).map_or("", |(_, hex)| hex)
}

/// Compares all before it fails, so that one run shows every line that is missing or wrong.
fn compare<T: Serialize + DeserializeOwned + Debug + PartialEq>(values: Vec<(&str, T)>) {
    let mut wrong = String::new();
    for (name, value) in values {
        let bytes = format::encode("golden value", &value).unwrap();
        if hex(&bytes) == golden(name) {
            assert_eq!(format::decode::<T>("golden value", &bytes).unwrap(), value, "{name}");
        } else {
            wrong += &format!("{name} {}\n", hex(&bytes));
        }
    }
    assert!(wrong.is_empty(), "golden.txt has other lines than\n{wrong}");
}

const AT: Position = Position { index: 300, number: 2 };

fn whole() -> Registration {
    let mut reg = Reg::new("c", "b", 0, "1.2.3.4:10911").topics(&[("t1", 4), ("t2", 8)]).acting(true);
    reg = reg.filters(&["f"]).static_info("t1", "b", 1);
    reg.0.zone = Some("z".into());
    reg.0.heartbeat_timeout_ms = Some(10_000);
    reg.0
}

fn changes() -> Vec<(&'static str, Change)> {
    let difference = Registration {
        id: -1,
        filter_servers: None,
        ha_address: None,
        basis: Basis::Difference { group_version: AT, topic_count: 10_000, absent: vec!["gone".into()] },
        ..Reg::new("c", "b", 0, "a").topics(&[("t", 4)]).0
    };
    let removals = RemoveBrokers {
        brokers: vec![
            Removal {
                cluster: "c".into(),
                broker: "b".into(),
                address: "a".into(),
                incarnation: Some(AT),
                cause: Cause::Expired { idle_ms: 120_000 },
            },
            Removal {
                cluster: "c".into(),
                broker: "b".into(),
                address: "x".into(),
                incarnation: None,
                cause: Cause::Disconnected,
            },
        ],
        decided_in_term: Some(7),
    };
    vec![
        ("register_broker.whole", Change::RegisterBroker(Box::new(whole()))),
        ("register_broker.difference", Change::RegisterBroker(Box::new(difference))),
        ("remove_brokers.decided", Change::RemoveBrokers(removals)),
        ("remove_brokers.asked", asked("c", "b", "a")),
        (
            "register_topic",
            Change::RegisterTopic(RegisterTopic { topic: "t".into(), queues: vec![("b".into(), queues(4))] }),
        ),
        ("delete_topic.all", Change::DeleteTopic(DeleteTopic { topic: "t".into(), cluster: None })),
        (
            "delete_topic.one",
            Change::DeleteTopic(DeleteTopic { topic: "t".into(), cluster: Some("c".into()) }),
        ),
        (
            "set_write_permission",
            Change::SetWritePermission(SetWritePermission { broker: "b".into(), writable: true }),
        ),
        ("put_kv", Change::PutKv(PutKv { namespace: "n".into(), key: "k".into(), value: Some("v".into()) })),
        ("put_kv.null", Change::PutKv(PutKv { namespace: "n".into(), key: "k".into(), value: None })),
        ("delete_kv", Change::DeleteKv(DeleteKv { namespace: "n".into(), key: "k".into() })),
        (
            "update_settings",
            Change::UpdateSettings(UpdateSettings {
                properties: vec![("orderMessageEnable".into(), "true".into())],
            }),
        ),
    ]
}

#[test]
fn changes_and_batches() {
    compare(changes().into_iter().map(|(name, change)| (name, command(change))).collect());
    let batch: Vec<Command> = changes().into_iter().map(|(_, change)| command(change)).collect();
    compare(vec![("batch", batch), ("batch.empty", vec![])]);
    let guard = Change::SetEvictionGuard(SetEvictionGuard { active: true });
    compare(vec![("set_eviction_guard", command(guard))]);
}

#[test]
fn outcomes() {
    compare(vec![
        ("outcome.done", Outcome::Done { changed: true }),
        ("outcome.outdated", Outcome::Outdated),
        ("outcome.single_topic", Outcome::SingleTopic),
        ("outcome.conflict", Outcome::Conflict { group_version: AT }),
        ("outcome.unknown_broker", Outcome::UnknownBroker { broker: "b".into() }),
        ("outcome.topics", Outcome::Topics { count: 300 }),
        ("outcome.removed", Outcome::Removed { count: 2 }),
    ]);
}

/// Events are a part of the history, and so of snapshots.
#[test]
fn events() {
    let name = |text: &str| Name::from(text);
    let (cluster, broker, topic, address) = (name("c"), name("b"), name("t"), name("a"));
    let id = -1;
    let registered = Event::BrokerRegistered {
        cluster: cluster.clone(),
        broker: broker.clone(),
        id,
        address: address.clone(),
        ha_address: Some(name("h")),
        first: true,
    };
    let removed = |cause| Event::BrokerRemoved {
        cluster: cluster.clone(),
        broker: broker.clone(),
        id,
        address: address.clone(),
        incarnation: AT,
        cause,
    };
    let permission =
        |why| Event::PermissionChanged { broker: broker.clone(), writable: false, why, topics: 3 };
    let conflict = |kind| Event::Conflict {
        kind,
        broker: broker.clone(),
        id,
        holder: address.clone(),
        claimant: name("x"),
    };
    let new = Event::TopicNew {
        topic: topic.clone(),
        broker: broker.clone(),
        queues: queues(4),
        resurrected: true,
    };
    let changed =
        Event::TopicChanged { topic: topic.clone(), broker: broker.clone(), old: queues(4), new: queues(8) };
    let lowest = Event::MinBrokerIdChanged {
        broker: broker.clone(),
        min_id: 1,
        min_address: address.clone(),
        ha_address: None,
        offline_address: Some(name("x")),
        targets: vec![address.clone()],
    };
    compare(vec![
        ("event.broker_registered", registered),
        ("event.broker_removed.asked", removed(RemovedBy::Removal(Cause::Asked))),
        ("event.broker_removed.expired", removed(RemovedBy::Removal(Cause::Expired { idle_ms: 9 }))),
        ("event.broker_removed.moved", removed(RemovedBy::Moved)),
        ("event.broker_removed.replaced", removed(RemovedBy::Replaced)),
        ("event.name_gone", Event::NameGone { cluster: cluster.clone(), broker: broker.clone() }),
        ("event.cluster_gone", Event::ClusterGone { cluster: cluster.clone() }),
        ("event.topic_new", new),
        ("event.topic_changed", changed),
        ("event.topic_gone", Event::TopicGone { topic: topic.clone(), broker: Some(broker.clone()) }),
        ("event.permission_changed.asked", permission(PermissionCause::Asked)),
        ("event.permission_changed.master_gone", permission(PermissionCause::MasterGone)),
        ("event.min_broker_id_changed", lowest),
        ("event.conflict.address", conflict(ConflictKind::Address)),
        ("event.conflict.cluster", conflict(ConflictKind::Cluster)),
        ("event.conflict.state_version", conflict(ConflictKind::StateVersion)),
        ("event.kv_changed", Event::KvChanged { namespace: name("n"), key: name("k"), deleted: true }),
        (
            "event.settings_changed",
            Event::SettingsChanged { changes: vec![(name("clusterTest"), name("false"), name("true"))] },
        ),
        ("event.eviction_guard_changed", Event::EvictionGuardChanged { active: true }),
    ]);
}

fn world() -> World {
    let mut w = World { term: 3, next: 40, ..World::default() };
    w.entry(vec![
        Change::RegisterBroker(Box::new(whole())),
        Reg::new("c", "b", 1, "s").topics(&[("t1", 4), ("t2", 8)]).acting(true).change(),
        Change::PutKv(PutKv { namespace: "n".into(), key: "k".into(), value: None }),
        Change::UpdateSettings(UpdateSettings { properties: vec![("clusterTest".into(), "true".into())] }),
        Change::DeleteTopic(DeleteTopic { topic: "t2".into(), cluster: None }),
    ]);
    w
}

/// The stream inside of a chunk; what lz4 makes of it may differ from version to version.
pub(in crate::route_info) fn plain(chunk: &[u8]) -> Vec<u8> {
    let (head, packed) = chunk.split_first_chunk::<5>().unwrap();
    let length = u32::from_le_bytes(head[1..].try_into().unwrap());
    lz4_flex::block::decompress(packed, length as usize).unwrap()
}

#[test]
fn a_snapshot() {
    let table = world().table;
    let chunk = table.chunks().next().unwrap().unwrap();
    let stored = unhex(golden("snapshot.chunk"));
    assert!(!stored.is_empty(), "snapshot.chunk {}", hex(&chunk));
    assert_eq!(hex(&plain(&chunk)), hex(&plain(&stored)), "snapshot.chunk {}", hex(&chunk));
    let mut loader = Loader::new();
    loader.chunk(&stored).unwrap();
    assert_eq!(loader.finish().unwrap().state_hash(), table.state_hash());
}

#[test]
fn a_state_hash() {
    let hash = world().table.state_hash();
    assert_eq!(format!("{hash}"), golden("state_hash.shown"), "state_hash.shown {hash}");
    compare::<StateHash>(vec![("state_hash", hash)]);
}
