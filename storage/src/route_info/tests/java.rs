//! What was recorded from the Java nameserver, step for step, and where this one answers otherwise on purpose.

use super::world::{Reg, TWO, World, key, queues};
use crate::Change;
use crate::command::{DeleteKv, Name, PutKv, RegisterTopic};
use crate::outcome::{Event, Outcome};

const CHANGED: Outcome = Outcome::Done { changed: true };
const UNCHANGED: Outcome = Outcome::Done { changed: false };

#[test]
fn register_and_leave() {
    let mut w = World::default();
    assert_eq!(w.reg(Reg::new("c", "b", 0, "a").topics(TWO)), CHANGED);
    assert_eq!((w.route("t1"), w.route("t2")), ("b:4/6".into(), "b:8/6".into()));
    assert_eq!(w.clusters(), "c:b");
    assert_eq!(w.unreg("c", "b", "a"), Outcome::Removed { count: 1 });
    assert_eq!((w.route("t1"), w.clusters(), w.ids("b")), Default::default());
    assert_eq!(w.unreg("c", "b", "a"), Outcome::Removed { count: 0 });
}

#[test]
fn a_first_registration_with_one_topic_leaves_nothing_behind() {
    let mut w = World::default();
    assert_eq!(w.reg(Reg::new("c", "b", 0, "a").topics(&[("only", 4)])), Outcome::SingleTopic);
    assert_eq!((w.route("only"), w.clusters()), Default::default(), "Java keeps the names");
    assert_eq!(w.reg(Reg::new("c", "b", 0, "a").topics(TWO)), CHANGED);
    assert_eq!(w.reg(Reg::new("c", "b", 0, "a").topics(&[("only", 4)]).version(2)), CHANGED);
    assert_eq!((w.route("only"), w.route("t1")), ("b:4/6".into(), "b:4/6".into()));
}

#[test]
fn no_topics_at_all_register_the_broker() {
    let mut w = World::default();
    assert_eq!(w.reg(Reg::new("c", "b", 0, "a")), CHANGED);
    assert_eq!((w.ids("b"), w.clusters()), ("0=a".into(), "c:b".into()));
}

#[test]
fn the_same_data_version_changes_no_known_topic() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO));
    w.reg(Reg::new("c", "b", 0, "a").topics(&[("t1", 16), ("t3", 4)]));
    assert_eq!(
        (w.route("t1"), w.route("t2"), w.route("t3")),
        ("b:4/6".into(), "b:8/6".into(), "b:4/6".into())
    );
}

#[test]
fn newer_and_older_data_versions_both_change_topics() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO).version(5));
    for (read, version, state) in [(9, 6, 0), (7, 1, 0), (6, 2, 0), (5, 2, 3)] {
        let again =
            Reg::new("c", "b", 0, "a").topics(&[("t1", read), ("t2", 8)]).version(version).state(state);
        assert_eq!(w.reg(again.clone()), CHANGED);
        assert_eq!(w.route("t1"), format!("b:{read}/6"));
        assert_eq!(w.reg(again), UNCHANGED);
    }
}

#[test]
fn topics_missing_from_a_registration_go_only_by_setting() {
    let mut w = World::default();
    w.set("deleteTopicWithBrokerRegistration", "true");
    w.reg(Reg::new("c", "b", 0, "a").topics(&[("t1", 4), ("t2", 8), ("t3", 4)]));
    w.reg(Reg::new("c", "b2", 0, "a2").topics(TWO));
    w.reg(Reg::new("c", "b", 0, "a").topics(&[("t2", 8), ("t4", 4)]).version(2));
    assert_eq!((w.route("t1"), w.route("t3")), ("b2:4/6".into(), String::new()));
    w.reg(Reg::new("c", "b", 0, "a").topics(&[("t4", 4)]).version(3).static_info("t4", "b", 1));
    assert_eq!(w.route("t2"), "b:8/6 b2:8/6", "a body with static topics deletes nothing");
    w.set("deleteTopicWithBrokerRegistration", "false");
    w.reg(Reg::new("c", "b", 0, "a").topics(&[("t4", 4), ("t5", 4)]).version(4));
    assert_eq!(w.route("t2"), "b:8/6 b2:8/6");
}

#[test]
fn topics_of_an_old_slave_are_not_taken() {
    let mut w = World::default();
    assert_eq!(w.reg(Reg::new("c", "b", 1, "s").topics(TWO)), CHANGED);
    assert_eq!(w.route("t1"), "");
    w.reg(Reg::new("c", "b", 0, "m").topics(TWO));
    w.unreg("c", "b", "m");
    assert_eq!(w.route("t1"), "b:4/6", "kept while the slave is there");
    w.unreg("c", "b", "s");
    assert_eq!(w.route("t1"), "");
}

#[test]
fn the_lowest_slave_may_register_topics() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 2, "s2").topics(TWO).acting(false));
    assert_eq!(w.route("t1"), "b:4/6");
    w.reg(Reg::new("c", "b", 1, "s1").topics(&[("t1", 4), ("t2", 8), ("t3", 4)]).acting(false).version(2));
    assert_eq!(w.route("t3"), "b:4/6");
    w.reg(Reg::new("c", "b", 2, "s2").topics(&[("t1", 4), ("t2", 8), ("t4", 4)]).acting(false).version(3));
    assert_eq!(w.route("t4"), "", "not the lowest any more");
}

#[test]
fn a_prime_slave_with_acting_master_is_read_only() {
    let mut w = World::default();
    let slave = Reg::new("c", "b", 1, "s").topics(&[("t1", 4), ("t2", 4), ("t3", 4)]).acting(true);
    w.reg(slave.perm("t2", 7).perm("t3", 2));
    assert_eq!(
        (w.route("t1"), w.route("t2"), w.route("t3")),
        ("b:4/4".into(), "b:4/5".into(), "b:4/0".into())
    );
    w.reg(Reg::new("c", "b", 0, "m").topics(TWO).acting(true));
    assert_eq!(w.route("t1"), "b:4/6");
}

#[test]
fn write_permission_goes_with_the_master_of_an_acting_group() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "m").topics(TWO).acting(true));
    w.reg(Reg::new("c", "b", 1, "s1").topics(TWO).acting(true));
    w.reg(Reg::new("c", "b", 2, "s2").topics(TWO).acting(true));
    w.unreg("c", "b", "m");
    assert_eq!((w.route("t1"), w.ids("b")), ("b:4/4".into(), "1=s1 2=s2".into()));
    assert!(
        w.events.iter().any(|e| matches!(e, Event::PermissionChanged { writable: false, topics: 2, .. }))
    );
    w.reg(Reg::new("c", "b", 0, "m").topics(TWO).acting(true));
    assert_eq!(w.route("t1"), "b:4/6", "the master returns with the same version");
}

#[test]
fn an_id_comes_with_another_address() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "old").topics(TWO).state(1));
    w.reg(Reg::new("c", "b", 0, "new").topics(&[("t1", 9), ("t3", 4)]).state(2));
    assert_eq!((w.route("t1"), w.route("t3"), w.ids("b")), ("b:9/6".into(), "b:4/6".into(), "0=new".into()));
    assert!(w.table.live(&key("c", "old")).is_none(), "replaced: nothing stays behind");
    assert_eq!(w.reg(Reg::new("c", "b", 0, "old").topics(TWO).state(1)), Outcome::Outdated);
    assert_eq!(w.unreg("c", "b", "old"), Outcome::Removed { count: 0 });
    assert_eq!(w.ids("b"), "0=new");
}

#[test]
fn an_address_comes_with_another_id() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "x").topics(TWO));
    w.reg(Reg::new("c", "b", 1, "y").topics(TWO));
    w.unreg("c", "b", "x");
    assert_eq!(w.route("t1"), "b:4/6");
    w.reg(Reg::new("c", "b", 0, "y").topics(TWO).version(2));
    assert_eq!(w.ids("b"), "0=y");
    w.reg(Reg::new("c", "b", 1, "x").topics(TWO).version(2));
    assert_eq!((w.ids("b"), w.route("t1")), ("0=y 1=x".into(), "b:4/6".into()));
}

#[test]
fn unregister_looks_at_name_and_address_only() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO));
    for (cluster, broker, address) in [("c", "b", "other"), ("c", "nobody", "a"), ("", "", "")] {
        assert_eq!(w.unreg(cluster, broker, address), Outcome::Removed { count: 0 });
    }
    assert_eq!(w.route("t1"), "b:4/6");
    assert_eq!(w.unreg("wrong cluster", "b", "a"), Outcome::Removed { count: 1 });
    assert_eq!((w.route("t1"), w.clusters()), Default::default(), "Java leaves the cluster behind");
    assert!(w.table.live(&key("c", "a")).is_none());
}

#[test]
fn write_permission_of_a_broker() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO));
    w.reg(Reg::new("c", "b2", 0, "a2").topics(TWO));
    let two = Outcome::Topics { count: 2 };
    assert_eq!(w.write_permission("b", false), two);
    assert_eq!(w.route("t1"), "b:4/4 b2:4/6");
    let version = w.table.group_version("b");
    assert_eq!(w.write_permission("b", false), two, "the count is the same when nothing changes");
    assert_eq!(w.table.group_version("b"), version);
    assert_eq!(w.reg(Reg::new("c", "b", 0, "a").topics(TWO)), UNCHANGED);
    assert_eq!(w.route("t1"), "b:4/4 b2:4/6", "an unchanged registration does not undo it");
    assert_eq!(w.write_permission("b", true), two);
    assert_eq!(w.route("t1"), "b:4/6 b2:4/6");
    assert_eq!(w.write_permission("nobody", true), Outcome::Topics { count: 0 });
    w.write_permission("b", false);
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO).version(2));
    assert_eq!(w.route("t1"), "b:4/6 b2:4/6", "a new version does");
}

#[test]
fn delete_topic() {
    let mut w = World::default();
    w.reg(Reg::new("c1", "b1", 0, "a1").topics(TWO));
    w.reg(Reg::new("c2", "b2", 0, "a2").topics(TWO));
    assert_eq!(w.delete("t1", Some("c1")), CHANGED);
    assert_eq!(w.route("t1"), "b2:4/6");
    assert_eq!(w.delete("t1", Some("nowhere")), UNCHANGED);
    assert_eq!(w.delete("t1", Some("c2")), CHANGED);
    assert_eq!(w.route("t1"), "");
    assert_eq!(w.delete("t2", None), CHANGED);
    assert_eq!(w.delete("t2", None), UNCHANGED);
    assert_eq!(w.route("t2"), "");
    assert_eq!(w.reg(Reg::new("c1", "b1", 0, "a1").topics(TWO)), CHANGED);
    assert_eq!(
        (w.route("t1"), w.route("t2")),
        ("b1:4/6".into(), "b1:8/6".into()),
        "brought back by its broker"
    );
}

#[test]
fn register_topic() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO));
    let register = |topic: &str, list: &[(&str, i32)]| {
        let queues = list.iter().map(|(name, read)| ((*name).into(), queues(*read))).collect();
        Change::RegisterTopic(RegisterTopic { topic: topic.into(), queues })
    };
    assert_eq!(w.run(register("new", &[("b", 4)])), CHANGED);
    assert_eq!(w.run(register("new", &[("b", 4)])), UNCHANGED);
    assert_eq!(w.run(register("new", &[("b", 3), ("b", 12)])), CHANGED);
    assert_eq!(w.route("new"), "b:12/6");
    let unknown = Outcome::UnknownBroker { broker: "nobody".into() };
    assert_eq!(w.run(register("new", &[("b", 5), ("nobody", 4)])), unknown);
    assert_eq!(w.route("new"), "b:12/6", "all or nothing");
    assert_eq!(w.run(register("ill", &[("nobody", 4)])), unknown);
    assert_eq!(w.run(register("empty", &[])), UNCHANGED);
    assert_eq!((w.route("ill"), w.route("empty")), Default::default());
}

#[test]
fn kv_entries() {
    let mut w = World::default();
    let put = |key: &str, value: Option<&str>| {
        Change::PutKv(PutKv { namespace: "n".into(), key: key.into(), value: value.map(Name::from) })
    };
    let delete =
        |space: &str, key: &str| Change::DeleteKv(DeleteKv { namespace: space.into(), key: key.into() });
    assert_eq!(w.run(put("k", Some("v"))), CHANGED);
    assert_eq!(w.run(put("k", Some("v"))), UNCHANGED);
    assert_eq!(w.table.kv("n", "k").map(|v| &**v), Some("v"));
    assert_eq!(w.run(put("k", None)), CHANGED);
    assert_eq!(w.table.kv("n", "k"), None);
    assert_eq!(w.run(delete("n", "k")), CHANGED);
    assert_eq!(w.run(delete("n", "k")), UNCHANGED);
    assert_eq!(w.run(delete("never", "k")), UNCHANGED);
    assert!(w.table.kv_namespace("n").unwrap().is_empty(), "an emptied namespace is still known");
    assert!(w.table.kv_namespace("never").is_none());
}

#[test]
fn filter_servers() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO).filters(&["f2", "f1"]));
    let list = w.table.filter_servers(&key("c", "a")).unwrap();
    assert_eq!(list.iter().map(|f| &**f).collect::<Vec<_>>(), ["f2", "f1"]);
    let mut without_list = Reg::new("c", "b", 0, "a").topics(TWO);
    without_list.0.filter_servers = None;
    assert_eq!(w.reg(without_list), UNCHANGED, "none keeps what is known");
    assert_eq!(w.reg(Reg::new("c", "b", 0, "a").topics(TWO)), CHANGED, "an empty list removes it");
    assert!(w.table.filter_servers(&key("c", "a")).is_none());
}

#[test]
fn static_topics() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO).static_info("t1", "b", 1).static_info("t2", "other", 1));
    w.reg(Reg::new("c", "b2", 0, "a2").topics(TWO).static_info("t1", "b2", 2));
    assert_eq!(w.table.static_topic("t1").unwrap().len(), 2);
    assert!(w.table.static_topic("t2").is_none(), "a broker writes only its own");
    assert_eq!(w.reg(Reg::new("c", "b", 0, "a").topics(TWO).static_info("t1", "b", 7)), UNCHANGED);
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO).version(2));
    assert_eq!(
        w.table.static_topic("t1").unwrap()["b"].epoch,
        1,
        "a registration without it takes none away"
    );
    w.delete("t1", None);
    assert_eq!(w.table.static_topic("t1").unwrap().len(), 2);
    w.unreg("c", "b", "a");
    w.unreg("c", "b2", "a2");
    assert!(w.table.static_topic("t1").is_none(), "they leave with their broker; Java keeps them for ever");
}

#[test]
fn notices_of_the_lowest_id() {
    let mut w = World::default();
    w.set("notifyMinBrokerIdChanged", "true");
    let notice = |w: &World| {
        w.events.iter().find_map(|e| match e {
            Event::MinBrokerIdChanged { min_id, ha_address, offline_address, targets, .. } => Some(format!(
                "{min_id} ha={} offline={} to {}",
                ha_address.as_deref().unwrap_or("-"),
                offline_address.as_deref().unwrap_or("-"),
                targets.join(",")
            )),
            _ => None,
        })
    };
    w.reg(Reg::new("c", "b", 1, "s").topics(TWO).acting(true));
    assert_eq!(notice(&w), None, "the first broker of a name");
    w.reg(Reg::new("c", "b", 0, "m").topics(TWO).acting(true));
    assert_eq!(notice(&w).unwrap(), "0 ha=10.0.0.1:10912 offline=- to s");
    w.unreg("c", "b", "m");
    assert_eq!(notice(&w).unwrap(), "1 ha=- offline=m to s");
    w.reg(Reg::new("c", "b", 0, "m").topics(TWO));
    assert!(notice(&w).is_some(), "all groups get a notice of a lower id");
    w.unreg("c", "b", "m");
    assert_eq!(notice(&w), None, "a lost one only to those of acting masters");
    w.set("notifyMinBrokerIdChanged", "false");
    w.reg(Reg::new("c", "b", 0, "m").topics(TWO).acting(true));
    assert_eq!(notice(&w), None);
}
