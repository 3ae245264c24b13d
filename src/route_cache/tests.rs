use super::*;
use crate::protocol::{GetRoute, body};
use proptest::prelude::*;
use storage::LogId;
use storage::command::{
    Basis, Cause, Change, Command, DataVersion, DeleteTopic, Origin, PutKv, QueueConfig, Registration,
    Removal, RemoveBrokers, SetWritePermission, TopicConfig, UpdateSettings,
};

const TOPICS: [&str; 4] = ["t0", "t1", "t2", "t3"];

fn ask(topic: &str, style: JsonStyle) -> GetRoute<'_> {
    GetRoute { topic: Some(topic), style, zone: None }
}

fn register(broker: u8, id: i64, topics: u8, queues: i32, counter: i64) -> Change {
    let topics =
        TOPICS.iter().zip(0..).filter(|(_, n)| topics & (1 << n) != 0).map(|(topic, _)| TopicConfig {
            topic: (*topic).into(),
            queues: QueueConfig { read: queues, write: queues, perm: 6, sys_flag: 0 },
        });
    Change::RegisterBroker(Box::new(Registration {
        cluster: "c".into(),
        broker: format!("b{broker}").into(),
        id,
        address: format!("10.0.{broker}.{id}:10911").into(),
        ha_address: None,
        zone: None,
        acting_master: Some(broker == 0),
        heartbeat_timeout_ms: None,
        data_version: DataVersion { state_version: 0, timestamp: 0, counter },
        filter_servers: (counter % 2 == 0).then(|| vec![format!("10.0.{broker}.{id}:{counter}").into()]),
        topics: topics.collect(),
        basis: Basis::Whole,
        static_infos: Vec::new(),
    }))
}

fn change() -> impl Strategy<Value = Change> {
    let broker = 0u8..3;
    let flag = prop_oneof![Just("orderMessageEnable"), Just("supportActingMaster"), Just("enableTopicList")];
    prop_oneof![
        6 => (broker.clone(), 0i64..2, any::<u8>(), 1i32..4, 0i64..4)
            .prop_map(|(broker, id, topics, queues, counter)| register(broker, id, topics, queues, counter)),
        2 => (broker.clone(), 0i64..2).prop_map(|(broker, id)| Change::RemoveBrokers(RemoveBrokers {
            brokers: vec![Removal {
                cluster: "c".into(),
                broker: format!("b{broker}").into(),
                address: format!("10.0.{broker}.{id}:10911").into(),
                incarnation: None,
                cause: Cause::Asked,
            }],
            decided_in_term: None,
        })),
        1 => (0usize..4).prop_map(|n| Change::DeleteTopic(DeleteTopic { topic: TOPICS[n].into(), cluster: None })),
        1 => (broker, any::<bool>()).prop_map(|(broker, writable)| Change::SetWritePermission(SetWritePermission {
            broker: format!("b{broker}").into(),
            writable,
        })),
        1 => (0usize..4, 0u8..3).prop_map(|(n, value)| Change::PutKv(PutKv {
            namespace: "ORDER_TOPIC_CONFIG".into(),
            key: TOPICS[n].into(),
            value: Some(format!("b{value}:4").into()),
        })),
        1 => (flag, any::<bool>()).prop_map(|(key, on)| Change::UpdateSettings(UpdateSettings {
            properties: vec![(key.into(), on.to_string().into())],
        })),
    ]
}

fn apply(table: &mut RouteInfo, index: u64, change: Change) {
    let command = match table.prepare(Command { origin: Origin::default(), change }) {
        storage::route_info::Prepared::Propose(command) => *command,
        storage::route_info::Prepared::Done(_) => return,
    };
    table.apply_entry(LogId { term: 1, index }, &[command]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// After any history a cached body is the one that would be encoded now; also in a cache of a few bytes.
    #[test]
    fn a_cached_body_is_the_one_that_would_be_encoded_now(
        changes in prop::collection::vec(change(), 1..40),
        bytes_max in prop_oneof![Just(0), Just(SHARDS * 600), Just(1 << 20)],
    ) {
        let cache = RouteCache::new(bytes_max);
        let mut table = RouteInfo::default();
        for (index, change) in (1..).zip(changes) {
            apply(&mut table, index, change);
            for topic in TOPICS {
                for style in [JsonStyle::Standard, JsonStyle::Old] {
                    let fresh = body::route(&table, &ask(topic, style));
                    let cached = cache.body(&table, topic, style, || body::route(&table, &ask(topic, style)));
                    prop_assert_eq!(cached, fresh, "topic {}, after command {}", topic, index);
                }
            }
            prop_assert!(cache.bytes() <= bytes_max);
        }
    }
}

fn table_with_a_route() -> RouteInfo {
    let mut table = RouteInfo::default();
    apply(&mut table, 1, register(0, 0, 0b1111, 4, 1));
    table
}

#[test]
fn changes_that_do_not_concern_routes_invalidate_nothing() {
    let cache = RouteCache::new(1 << 20);
    let mut table = table_with_a_route();
    let look_up = |table: &RouteInfo| {
        let ask = ask("t0", JsonStyle::Standard);
        cache.body(table, "t0", JsonStyle::Standard, || body::route(table, &ask)).unwrap()
    };
    look_up(&table);
    apply(&mut table, 2, register(0, 0, 0b1111, 4, 1));
    look_up(&table);
    let kv = PutKv { namespace: "n".into(), key: "k".into(), value: None };
    apply(&mut table, 3, Change::PutKv(kv));
    look_up(&table);
    assert_eq!((cache.hits.get(), cache.misses.get()), (2, 1));
}

#[test]
fn an_unknown_topic_is_not_cached() {
    let cache = RouteCache::new(1 << 20);
    let table = table_with_a_route();
    assert_eq!(cache.body(&table, "none", JsonStyle::Old, || None), None);
    assert_eq!(cache.bytes(), 0);
}

#[test]
fn it_stays_within_its_bytes_and_keeps_used_entries() {
    let mut shard = Shard::default();
    let entry = |used| Entry {
        body: Bytes::from_static(&[0; 100]),
        topic: Position::default(),
        brokers: Position::default(),
        valid_at: None,
        used,
    };
    for n in 0..10 {
        let topic = Name::from(format!("t{n}"));
        shard.bytes += cost(&topic, &entry(false).body);
        shard.standard.insert(Name::clone(&topic), entry(n == 0));
        shard.order.push_back((topic, JsonStyle::Standard));
    }
    let one = shard.bytes / 10;
    shard.shrink_to(one * 3);
    let mut left: Vec<&str> = shard.standard.keys().map(|topic| &**topic).collect();
    left.sort_unstable();
    assert_eq!(left, ["t0", "t8", "t9"], "t0 was used and had a second chance");
    assert_eq!(shard.bytes, one * 3);
}
