use super::*;
use crate::protocol::registration::parse_registration;
use crate::protocol::{GetRoute, JsonStyle};
use crate::wire::RemotingCommand;
use storage::command::{Change, DataVersion, Origin, PutKv, SetWritePermission, UpdateSettings};
use storage::{Command, LogId, RouteInfo};

/// Applies changes one by one, each in an entry of its own.
struct Table {
    info: RouteInfo,
    index: u64,
}

impl Table {
    fn new() -> Self {
        Self { info: RouteInfo::default(), index: 0 }
    }

    fn apply(&mut self, change: Change) {
        self.index += 1;
        self.info.apply_entry(
            LogId { term: 1, index: self.index },
            &[Command { origin: Origin::default(), change }],
        );
    }

    fn register(&mut self, broker: &str, id: &str, port: u16, fields: &[(&str, &str)], body: &str) {
        let command = RemotingCommand::request(103, 1)
            .with("brokerName", broker)
            .with("clusterName", "c")
            .with("brokerId", id)
            .with("brokerAddr", &format!("127.0.0.1:{port}"))
            .with_body(body.as_bytes().to_vec());
        let command = fields.iter().fold(command, |command, (key, value)| command.with(key, value));
        self.apply(Change::RegisterBroker(Box::new(parse_registration(&command).unwrap())));
    }

    fn set(&mut self, key: &str, value: &str) {
        self.apply(Change::UpdateSettings(UpdateSettings { properties: vec![(key.into(), value.into())] }));
    }

    fn route(&self, topic: &str, style: JsonStyle, zone: Option<&str>) -> String {
        let ask = GetRoute { topic: Some(topic), style, zone };
        String::from_utf8(route(&self.info, &ask).unwrap().to_vec()).unwrap()
    }
}

const TOPICS: &str = r#"{"topicConfigSerializeWrapper":{"dataVersion":{"counter":1},"topicConfigTable":{"t":{"topicName":"t","readQueueNums":4,"writeQueueNums":4},"u":{"topicName":"u"}}}}"#;

#[test]
fn a_route_has_two_styles() {
    let mut table = Table::new();
    table.register("é", "0", 1, &[("__ZONE_NAME", "a/b")], TOPICS);
    table.register("é", "10", 2, &[("__ZONE_NAME", "a/b")], TOPICS);
    let queues = |name: &str| {
        format!(
            r#""queueDatas":[{{"brokerName":"{name}","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}}]"#
        )
    };
    let expected = [
        r#"{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:1","10":"127.0.0.1:2"},"brokerName":"\u00E9","cluster":"c","enableActingMaster":false,"zoneName":"a\/b"}],"filterServerTable":{},"#,
        &queues("\\u00E9"),
        "}",
    ];
    assert_eq!(table.route("t", JsonStyle::Standard, None), expected.concat());
    let expected = [
        r#"{"brokerDatas":[{"brokerAddrs":{0:"127.0.0.1:1",10:"127.0.0.1:2"},"brokerName":"é","cluster":"c","enableActingMaster":false,"zoneName":"a/b"}],"filterServerTable":{},"#,
        &queues("é"),
        "}",
    ];
    assert_eq!(table.route("t", JsonStyle::Old, None), expected.concat());
    // A route filtered by zone has the old style for every client.
    assert_eq!(table.route("t", JsonStyle::Standard, Some("A/B")), expected.concat());
}

#[test]
fn an_unknown_topic_has_no_route() {
    let ask = GetRoute { topic: Some("t"), style: JsonStyle::Old, zone: None };
    assert_eq!(route(&Table::new().info, &ask), None);
    assert_eq!(route(&Table::new().info, &GetRoute { topic: None, ..ask }), None);
}

#[test]
fn a_zone_keeps_its_brokers_and_names_without_a_master() {
    let mut table = Table::new();
    table.register("a", "0", 1, &[("__ZONE_NAME", "z1")], TOPICS);
    table.register("b", "0", 2, &[("__ZONE_NAME", "z2")], TOPICS);
    table.register("d", "1", 3, &[("enableActingMaster", "true")], TOPICS);
    let near = |zone| {
        let route = table.route("t", JsonStyle::Old, Some(zone));
        ["a", "b", "d"].map(|broker| route.matches(&format!("\"brokerName\":\"{broker}\"")).count())
    };
    assert_eq!(near("Z1"), [2, 0, 2]);
    assert_eq!(near("z2"), [0, 2, 2]);
    assert_eq!(near("nowhere"), [0, 0, 2]);
}

#[test]
fn a_zone_without_brokers_gives_an_empty_route() {
    let mut table = Table::new();
    table.register("a", "0", 1, &[("__ZONE_NAME", "z1")], TOPICS);
    assert_eq!(
        table.route("t", JsonStyle::Old, Some("z9")),
        r#"{"brokerDatas":[],"filterServerTable":{},"queueDatas":[]}"#
    );
}

#[test]
fn the_lowest_id_acts_as_master_where_no_broker_can_be_written() {
    let mut table = Table::new();
    let topics = TOPICS.replace("\"u\"", "\"rmq_sys_SYNC_BROKER_MEMBER_b\"");
    table.register("b", "1", 1, &[("enableActingMaster", "true")], &topics);
    table.register("b", "2", 2, &[("enableActingMaster", "true")], &topics);
    let shows =
        |table: &Table, topic: &str, ids: &str| table.route(topic, JsonStyle::Old, None).contains(ids);
    let real = r#"{1:"127.0.0.1:1",2:"127.0.0.1:2"}"#;
    assert!(shows(&table, "t", real));
    table.set("supportActingMaster", "true");
    assert!(shows(&table, "t", r#"{0:"127.0.0.1:1",2:"127.0.0.1:2"}"#));
    assert!(shows(&table, "rmq_sys_SYNC_BROKER_MEMBER_b", real));
    table.apply(Change::SetWritePermission(SetWritePermission { broker: "b".into(), writable: true }));
    assert!(shows(&table, "t", real));
    // The member group and the cluster info show registered ids.
    assert!(String::from_utf8_lossy(&member_group(&table.info, Some("x"), Some("b"))).contains(real));
    assert!(String::from_utf8_lossy(&cluster_info(&table.info)).contains(real));
}

#[test]
fn the_order_of_a_topic_is_shown_when_it_is_switched_on() {
    let mut table = Table::new();
    table.register("b", "0", 1, &[], TOPICS);
    let put = PutKv { namespace: ORDER_TOPIC_NAMESPACE.into(), key: "t".into(), value: Some("b:4".into()) };
    table.apply(Change::PutKv(put));
    assert!(!table.route("t", JsonStyle::Old, None).contains("orderTopicConf"));
    table.set("orderMessageEnable", "true");
    assert!(
        table
            .route("t", JsonStyle::Old, None)
            .contains(r#""filterServerTable":{},"orderTopicConf":"b:4","queueDatas""#)
    );
    assert!(!table.route("u", JsonStyle::Old, None).contains("orderTopicConf"));
}

#[test]
fn filter_servers_and_static_topics_are_shown() {
    let mut table = Table::new();
    let body = r#"{"filterServerList":["f2","f1"],"topicConfigSerializeWrapper":{"topicConfigTable":{"t":{"topicName":"t"},"u":{"topicName":"u"}},"topicQueueMappingInfoMap":{"t":{"bname":"b","topic":"t","currIdMap":{"0":3},"totalQueues":4}}}}"#;
    table.register("b", "0", 1, &[], body);
    let shown = table.route("t", JsonStyle::Standard, None);
    assert!(shown.contains(r#""filterServerTable":{"127.0.0.1:1":["f2","f1"]},"queueDatas""#), "{shown}");
    let info = r#"],"topicQueueMappingByBroker":{"b":{"bname":"b","currIdMap":{"0":3},"dirty":false,"epoch":0,"scope":"__global__","topic":"t","totalQueues":4}}}"#;
    assert!(shown.ends_with(info), "{shown}");
    assert!(table.route("t", JsonStyle::Old, None).contains(r#""currIdMap":{0:3}"#));
    assert!(!table.route("u", JsonStyle::Old, None).contains("topicQueueMappingByBroker"));
}

#[test]
fn clusters_and_members_are_in_name_order() {
    let mut table = Table::new();
    for (broker, id, port) in [("b", "0", 1), ("a", "3", 2), ("a", "0", 3)] {
        table.register(broker, id, port, &[], TOPICS);
    }
    let expected = r#"{"brokerAddrTable":{"a":{"brokerAddrs":{0:"127.0.0.1:3",3:"127.0.0.1:2"},"brokerName":"a","cluster":"c","enableActingMaster":false},"b":{"brokerAddrs":{0:"127.0.0.1:1"},"brokerName":"b","cluster":"c","enableActingMaster":false}},"clusterAddrTable":{"c":["a","b"]}}"#;
    assert_eq!(cluster_info(&table.info), expected);
    assert_eq!(
        member_group(&table.info, Some("any"), Some("a")),
        r#"{"brokerMemberGroup":{"brokerAddrs":{0:"127.0.0.1:3",3:"127.0.0.1:2"},"brokerName":"a","cluster":"any"}}"#
    );
    assert_eq!(
        member_group(&table.info, None, Some("z")),
        r#"{"brokerMemberGroup":{"brokerAddrs":{},"brokerName":"z"}}"#
    );
    assert_eq!(cluster_info(&Table::new().info), r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#);
}

#[test]
fn lists_and_tables_are_plain() {
    assert_eq!(topic_list(["a", "é"], None), r#"{"topicList":["a","é"]}"#);
    assert_eq!(topic_list([], Some("127.0.0.1:1")), r#"{"brokerAddr":"127.0.0.1:1","topicList":[]}"#);
    let entries = [("a".into(), Some("1".into())), ("b".into(), None), ("c".into(), Some("".into()))];
    assert_eq!(kv_table(entries.iter().map(|(key, value)| (key, value))), r#"{"table":{"a":"1","c":""}}"#);
    let version = DataVersion { counter: 1, state_version: -2, timestamp: 3 };
    assert_eq!(data_version(version), r#"{"counter":1,"stateVersion":-2,"timestamp":3}"#);
}

/// A KV namespace is limited by it, so it must never be too low.
#[test]
fn no_text_takes_more_bytes_than_are_counted() {
    let characters = (0..0x3000).chain([0xFEFF, 0xFFFD, 0xFFFF, 0x1_0000, 0x1_F980, 0x10_FFFF]);
    for character in characters.filter_map(char::from_u32) {
        let text = String::from(character);
        for charset in [crate::wire::json::Charset::Utf8, crate::wire::json::Charset::Ascii] {
            let mut out = bytes::BytesMut::new();
            crate::wire::json::put_text(&text, charset, &mut out);
            assert!(out.len() < storage::limits::json_bytes_max(&text), "{character:?} {charset:?}");
        }
    }
}
