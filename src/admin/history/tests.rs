use super::*;
use storage::command::{DataVersion, Origin, Registration, Removal, RemoveBrokers, TopicConfig};
use storage::{Change, Command, LogId};

const PEER: &str = "10.1.1.1:50000";

/// Applies entries one after another, an hour after 1970 and a second apart.
#[derive(Default)]
struct World {
    table: RouteInfo,
    next: u64,
}

impl World {
    fn run(&mut self, peer: &str, change: Change) {
        self.next += 1;
        let origin = Origin { node: 2, peer: peer.into(), unix_ms: 3_600_000 + self.next * 1000 };
        self.table.apply_entry(LogId { term: 1, index: self.next }, &[Command { origin, change }]);
    }

    fn registers(&mut self, broker: &str, address: &str, topics: &[&str]) {
        self.registers_as(0, broker, address, topics);
    }

    fn registers_as(&mut self, id: i64, broker: &str, address: &str, topics: &[&str]) {
        let queues = QueueConfig { read: 8, write: 8, perm: 6, sys_flag: 0 };
        let registration = Registration {
            data_version: DataVersion {
                counter: i64::try_from(self.next).unwrap(),
                ..DataVersion::default()
            },
            // A first registration of one single topic would be refused.
            topics: topics
                .iter()
                .chain(&["z"])
                .map(|topic| TopicConfig { topic: (*topic).into(), queues })
                .collect(),
            id,
            ..Registration::of_master("c".into(), broker.into(), address.into())
        };
        self.run(PEER, Change::RegisterBroker(Box::new(registration)));
    }

    fn removes(&mut self, address: &str, cause: Cause) {
        let (key, live) = self.table.live_brokers().find(|(key, _)| *key.address == *address).unwrap();
        let removal = Removal {
            cluster: key.cluster.clone(),
            broker: live.broker.clone(),
            address: key.address.clone(),
            incarnation: Some(live.incarnation),
            cause,
        };
        let change = RemoveBrokers { brokers: vec![removal], decided_in_term: Some(1) };
        self.run("", Change::RemoveBrokers(change));
    }

    fn why(&self, name: &str) -> HistoryView {
        HistoryView::new(&self.table, name, 100)
    }
}

fn kinds(view: &HistoryView) -> Vec<&str> {
    view.records.iter().map(|record| record.kind.as_str()).collect()
}

#[test]
fn a_topic_went_with_its_broker_and_the_record_says_why() {
    let mut world = World::default();
    world.registers("broker-a", "10.0.0.1:10911", &["t", "u"]);
    world.registers("broker-b", "10.0.0.2:10911", &["u"]);
    world.removes("10.0.0.1:10911", Cause::Expired { idle_ms: 12_340 });

    let view = world.why("t");
    assert!(!view.known, "{view:?}");
    assert_eq!(
        kinds(&view),
        ["brokerRegistered", "topicNew", "brokerRemoved", "brokerNameGone", "topicGone"]
    );
    let removed = &view.records[2];
    assert_eq!(removed.what, "broker-a id 0 at 10.0.0.1:10911 removed: idle for 12.3 s");
    assert_eq!((removed.node, removed.peer.as_str(), removed.revision), (2, "", 3));
    assert_eq!(removed.unix_ms, 3_603_000);
    assert_eq!(view.records[0].peer, PEER);
    assert_eq!(view.since_unix_ms, Some(3_601_000));

    let view = world.why("u");
    assert_eq!(view.now, "topic u is on broker-b (8 read and 8 write queues, read+write)");
}

#[test]
fn a_broker_is_found_by_name_and_by_address_and_without_its_topics() {
    let mut world = World::default();
    world.registers("broker-a", "10.0.0.1:10911", &["t"]);
    world.registers("broker-b", "10.0.0.2:10911", &["t"]);
    for name in ["broker-a", "10.0.0.1:10911"] {
        let view = world.why(name);
        assert!(view.known && view.now.contains("10.0.0.1:10911"), "{view:?}");
        assert_eq!(kinds(&view), ["brokerRegistered"], "{name}");
    }
    world.removes("10.0.0.1:10911", Cause::Disconnected);
    assert_eq!(kinds(&world.why("10.0.0.1:10911")), ["brokerRegistered", "brokerRemoved"]);
    assert_eq!(kinds(&world.why("broker-a")), ["brokerRegistered", "brokerRemoved", "brokerNameGone"]);
}

#[test]
fn an_address_that_takes_another_id_or_name_is_there_at_the_end_of_its_history() {
    let mut world = World::default();
    let place = |view: &HistoryView| view.records.last().unwrap().what.clone();
    for id in [0, 1, 0] {
        world.registers_as(id, "broker-a", "10.0.0.1:10911", &["t"]);
        let expected = format!("broker-a id {id} at 10.0.0.1:10911 registered in cluster c");
        assert_eq!(place(&world.why("10.0.0.1:10911")), expected);
    }
    let moves = ["brokerRemoved", "brokerRegistered"].repeat(2);
    assert_eq!(kinds(&world.why("10.0.0.1:10911"))[1..], moves);
    world.registers("broker-b", "10.0.0.1:10911", &["t"]);
    assert_eq!(
        place(&world.why("10.0.0.1:10911")),
        "broker-b id 0 at 10.0.0.1:10911 registered in cluster c"
    );
}

#[test]
fn two_addresses_that_alternate_are_a_conflict_with_both_addresses() {
    let mut world = World::default();
    for _ in 0..2 {
        world.registers("broker-a", "10.0.0.1:10911", &["t"]);
        world.registers("broker-a", "10.0.0.2:10911", &["t"]);
    }
    let view = world.why("broker-a");
    let conflicts: Vec<_> = view.records.iter().filter(|record| record.kind == "conflict").collect();
    assert_eq!(conflicts.len(), 3, "{view:#?}");
    for address in ["10.0.0.1:10911", "10.0.0.2:10911"] {
        assert!(conflicts.iter().all(|record| record.what.contains(address)), "{conflicts:?}");
    }
}

#[test]
fn the_newest_records_are_kept_and_the_others_counted() {
    let mut world = World::default();
    for _ in 0..5 {
        world.registers("broker-a", "10.0.0.1:10911", &["t"]);
        world.removes("10.0.0.1:10911", Cause::Asked);
    }
    let view = HistoryView::new(&world.table, "10.0.0.1:10911", 3);
    assert_eq!(kinds(&view), ["brokerRemoved", "brokerRegistered", "brokerRemoved"]);
    assert_eq!(view.left_out, 7);
    assert_eq!(view.records[2].revision, 10);
}

#[test]
fn an_unknown_name_has_no_records() {
    let view = World::default().why("x");
    assert!(!view.known && view.records.is_empty() && view.since_unix_ms.is_none());
    assert_eq!(view.now, "x is neither a topic nor a broker in the table");
}
