//! Commands of every kind over a few names, so that they meet; with values that no honest peer sends.

use super::world::command;
use crate::command::*;
use crate::route_info::RouteInfo;
use crate::{Change, Command, Position};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

fn name(of: &'static [&'static str]) -> impl Strategy<Value = Name> {
    select(of).prop_map(Name::from)
}

pub(super) const TOPICS: &[&str] = &["t1", "t2", "t3", "rmq_sys_SYNC_BROKER_MEMBER_b1", ""];

pub(super) fn topic() -> impl Strategy<Value = Name> {
    name(TOPICS)
}

pub(super) fn broker() -> impl Strategy<Value = Name> {
    prop_oneof![8 => name(&["b1", "b2"]), 1 => name(&["b3", ""])]
}

pub(super) fn cluster() -> impl Strategy<Value = Name> {
    prop_oneof![6 => name(&["c1"]), 2 => name(&["c2"]), 1 => name(&[""])]
}

pub(super) fn address() -> impl Strategy<Value = Name> {
    prop_oneof![9 => name(&["a1", "a2", "a3"]), 1 => name(&[""])]
}

fn id() -> impl Strategy<Value = i64> {
    prop_oneof![9 => select(vec![0i64, 0, 1, 2]), 1 => select(vec![-1, i64::MIN, i64::MAX])]
}

fn queue() -> impl Strategy<Value = QueueConfig> {
    let number = || prop_oneof![9 => select(vec![4i32, 8]), 1 => select(vec![-1, 0, i32::MIN, i32::MAX])];
    let perm = prop_oneof![8 => select(vec![6, 4]), 1 => any::<i32>()];
    (number(), number(), perm, select(vec![0, 3])).prop_map(|(read, write, perm, sys_flag)| QueueConfig {
        read,
        write,
        perm,
        sys_flag,
    })
}

fn version() -> impl Strategy<Value = DataVersion> {
    let state = prop_oneof![8 => select(vec![0i64, 1]), 1 => select(vec![i64::MIN, i64::MAX])];
    (state, select(vec![0i64, i64::MAX]), select(vec![1i64, 2, i64::MIN]))
        .prop_map(|(state_version, timestamp, counter)| DataVersion { state_version, timestamp, counter })
}

fn static_infos() -> impl Strategy<Value = Vec<(Name, StaticTopicInfo)>> {
    let info = (option::of(broker()), any::<i8>(), option::of(topic())).prop_map(|(broker, epoch, topic)| {
        StaticTopicInfo {
            topic,
            broker,
            total_queues: i32::MAX,
            epoch: i64::from(epoch % 2),
            scope: None,
            dirty: true,
            current_ids: (epoch > 0).then(|| [(i32::MIN, -1), (0, i32::MAX)].into()),
        }
    });
    prop_oneof![3 => Just(vec![]), 1 => vec((topic(), info), 0..3)]
}

fn position() -> impl Strategy<Value = Position> {
    (0u64..12, 0u32..2).prop_map(|(index, number)| Position { index, number })
}

fn basis() -> impl Strategy<Value = Basis> {
    let absent = vec(topic(), 0..3);
    let difference = (position(), any::<u32>(), absent).prop_map(|(group_version, topic_count, absent)| {
        Basis::Difference { group_version, topic_count, absent }
    });
    prop_oneof![6 => Just(Basis::Whole), 1 => difference]
}

/// A registration as an edge makes it: whole, topics in order.
pub(super) fn honest_registration() -> impl Strategy<Value = Registration> {
    registration().prop_map(|mut r| {
        r.basis = Basis::Whole;
        r.topics.sort_by(|a, b| a.topic.cmp(&b.topic));
        r.topics.dedup_by(|a, b| a.topic == b.topic);
        r.static_infos.sort_by(|a, b| a.0.cmp(&b.0));
        r.static_infos.dedup_by(|a, b| a.0 == b.0);
        r
    })
}

fn registration() -> impl Strategy<Value = Registration> {
    let topic = (topic(), queue()).prop_map(|(topic, queues)| TopicConfig { topic, queues });
    let identity = (cluster(), broker(), id(), address());
    let flags = (option::of(name(&["z1", "z2"])), select(vec![None, Some(true), Some(true), Some(false)]));
    let timeout = prop_oneof![9 => Just(None), 1 => option::of(select(vec![i64::MIN, 0, 10_000]))];
    let filters = option::of(vec(name(&["f1", "f2"]), 0..3));
    let rest = (version(), timeout, filters, option::of(name(&["h1", "h2"])));
    (identity, flags, rest, vec(topic, 0..5), basis(), static_infos()).prop_map(
        |(identity, flags, rest, topics, basis, static_infos)| Registration {
            cluster: identity.0,
            broker: identity.1,
            id: identity.2,
            address: identity.3,
            ha_address: rest.3,
            zone: flags.0,
            acting_master: flags.1,
            heartbeat_timeout_ms: rest.1,
            data_version: rest.0,
            filter_servers: rest.2,
            topics,
            basis,
            static_infos,
        },
    )
}

fn removals() -> impl Strategy<Value = RemoveBrokers> {
    let cause =
        select(vec![Cause::Asked, Cause::Asked, Cause::Disconnected, Cause::Expired { idle_ms: u64::MAX }]);
    // `u64::MAX` stands for the present incarnation: see `Step::resolve`.
    let now = Just(Some(Position { index: u64::MAX, number: 0 }));
    let incarnation = prop_oneof![3 => now, 1 => option::of(position())];
    let removal = (cluster(), broker(), address(), incarnation, cause).prop_map(
        |(cluster, broker, address, incarnation, cause)| Removal {
            cluster,
            broker,
            address,
            incarnation,
            cause,
        },
    );
    (vec(removal, 0..5), select(vec![None, Some(1), Some(1), Some(2)]))
        .prop_map(|(brokers, decided_in_term)| RemoveBrokers { brokers, decided_in_term })
}

fn settings() -> impl Strategy<Value = UpdateSettings> {
    let key = name(&[
        "deleteTopicWithBrokerRegistration",
        "deleteTopicWithBrokerRegistration",
        "notifyMinBrokerIdChanged",
        "orderMessageEnable",
        "supportActingMaster",
        "waitSecondsForService",
        "clusterTest",
        "unknown",
        "",
    ]);
    vec((key, name(&["true", "true", "false", "46", "x", ""])), 0..3)
        .prop_map(|properties| UpdateSettings { properties })
}

/// Any change but a registration.
pub(super) fn other_change() -> impl Strategy<Value = Change> {
    let namespace = || name(&["ORDER_TOPIC_CONFIG", "n"]);
    let register_topic = (topic(), vec((broker(), queue()), 0..3))
        .prop_map(|(topic, queues)| Change::RegisterTopic(RegisterTopic { topic, queues }));
    let delete_topic = (topic(), option::of(cluster()))
        .prop_map(|(topic, cluster)| Change::DeleteTopic(DeleteTopic { topic, cluster }));
    let permission = (broker(), any::<bool>())
        .prop_map(|(broker, writable)| Change::SetWritePermission(SetWritePermission { broker, writable }));
    let put = (namespace(), topic(), option::of(name(&["v", "w"])))
        .prop_map(|(namespace, key, value)| Change::PutKv(PutKv { namespace, key, value }));
    let delete =
        (namespace(), topic()).prop_map(|(namespace, key)| Change::DeleteKv(DeleteKv { namespace, key }));
    prop_oneof![
        3 => removals().prop_map(Change::RemoveBrokers),
        2 => register_topic,
        2 => delete_topic,
        2 => permission,
        1 => put,
        1 => delete,
        1 => settings().prop_map(Change::UpdateSettings),
        1 => any::<bool>().prop_map(|active| Change::SetEvictionGuard(SetEvictionGuard { active })),
    ]
}

/// Any change.
pub(super) fn change() -> impl Strategy<Value = Change> {
    let register = registration().prop_map(|r| Change::RegisterBroker(Box::new(r)));
    prop_oneof![3 => register, 2 => other_change()]
}

/// Puts the present incarnation where a removal asks for it.
pub(super) fn resolve(table: &RouteInfo, change: Change) -> Command {
    let mut command = command(change);
    if let Change::RemoveBrokers(removals) = &mut command.change {
        for removal in &mut removals.brokers {
            if removal.incarnation.is_some_and(|at| at.index == u64::MAX) {
                let key = table.broker_key(&removal.broker, &removal.address);
                removal.incarnation = key.and_then(|key| table.live(&key)).map(|live| live.incarnation);
            }
        }
    }
    command
}
