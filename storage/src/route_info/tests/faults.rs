//! Faults that users of nameservers reported, as tests.

use super::world::{Reg, TWO, World, asked, key, removal};
use crate::command::{Cause, Removal, RemoveBrokers};
use crate::outcome::{ConflictKind, Event, Outcome, RemovedBy};
use crate::route_info::Prepared;
use crate::{Change, Position};

const EXPIRED: Cause = Cause::Expired { idle_ms: 120_001 };

#[test]
fn a_full_table_after_a_single_topic_is_taken_whole() {
    let mut w = World::default();
    let many: Vec<String> = (1..=50).map(|n| format!("t{n:02}")).collect();
    let many: Vec<(&str, i32)> = many.iter().map(|t| (&**t, 4)).collect();
    assert_eq!(w.reg(Reg::new("c", "b", 0, "a").topics(&many[..1])), Outcome::SingleTopic);
    w.reg(Reg::new("c", "b", 0, "a").topics(&many));
    assert!(many.iter().all(|(topic, _)| w.route(topic) == "b:4/6"));
}

#[test]
fn a_late_removal_cannot_remove_a_new_registration() {
    let registered = || {
        let mut w = World::default();
        w.reg(Reg::new("c", "b", 0, "a").topics(TWO));
        let at = w.incarnation("c", "a");
        (w, removal("c", "b", "a", at, EXPIRED, Some(0)))
    };
    let again = || Reg::new("c", "b", 0, "a").topics(TWO).version(2);
    // The eviction, then the registration.
    let (mut w, evict) = registered();
    assert_eq!(w.run(evict.clone()), Outcome::Removed { count: 1 });
    w.reg(again());
    assert_eq!(w.route("t1"), "b:4/6");
    // And the other way round: the incarnation is another one now.
    let (mut w, evict) = registered();
    w.reg(again());
    assert_eq!(w.run(evict), Outcome::Removed { count: 0 });
    assert_eq!(w.route("t1"), "b:4/6");
}

#[test]
fn a_removal_of_another_term_is_void() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO));
    let at = w.incarnation("c", "a");
    w.term = 7;
    let decided = |term| removal("c", "b", "a", at, Cause::Disconnected, Some(term));
    assert_eq!(w.run(decided(6)), Outcome::Removed { count: 0 });
    assert_eq!(w.run(decided(8)), Outcome::Removed { count: 0 });
    assert_eq!(w.run(decided(7)), Outcome::Removed { count: 1 });
}

#[test]
fn a_decided_removal_needs_an_incarnation() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO));
    assert_eq!(w.run(removal("c", "b", "a", None, EXPIRED, Some(0))), Outcome::Removed { count: 0 });
    assert_eq!(w.run(asked("c", "b", "a")), Outcome::Removed { count: 1 });
}

#[test]
fn a_late_unregister_does_not_remove_the_successor() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "old").topics(TWO));
    w.reg(Reg::new("c", "b", 0, "new").topics(TWO));
    let replaced = |e: &Event| matches!(e, Event::BrokerRemoved { cause: RemovedBy::Replaced, .. });
    assert!(w.events.iter().any(replaced));
    assert_eq!(w.unreg("c", "b", "old"), Outcome::Removed { count: 0 });
    assert_eq!(w.ids("b"), "0=new");
}

#[test]
fn the_leader_names_the_incarnation_of_what_was_asked() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO));
    let Change::RemoveBrokers(mut both) = asked("wrong", "b", "a") else { panic!("a removal") };
    both.brokers.push(Removal { address: "nobody".into(), ..both.brokers[0].clone() });
    let Prepared::Propose(command) = w.table.prepare(super::world::command(Change::RemoveBrokers(both)))
    else {
        panic!("there is one to remove")
    };
    let Change::RemoveBrokers(prepared) = &command.change else { panic!("a removal") };
    assert_eq!(prepared.brokers.len(), 1, "a broker that is not there is left out");
    assert_eq!(prepared.brokers[0].incarnation, w.incarnation("c", "a"));
    // The broker registers again before the removal is applied: it stays.
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO).version(2));
    assert_eq!(w.run(command.change), Outcome::Removed { count: 0 });
}

#[test]
fn many_brokers_leave_in_one_entry() {
    let mut w = World { next: 10, ..World::default() };
    for n in 0..20 {
        w.reg(Reg::new("c", &format!("b{n:02}"), 0, &format!("a{n}")).topics(TWO));
    }
    let brokers = (0..10).map(|n| Removal {
        cluster: "c".into(),
        broker: format!("b{:02}", n * 2).into(),
        address: format!("a{}", n * 2).into(),
        incarnation: w.incarnation("c", &format!("a{}", n * 2)),
        cause: EXPIRED,
    });
    let command = RemoveBrokers { brokers: brokers.collect(), decided_in_term: Some(0) };
    assert_eq!(w.run(Change::RemoveBrokers(command)), Outcome::Removed { count: 10 });
    assert_eq!(w.table.topic("t1").unwrap().queues.len(), 10);
    assert!(w.table.topics_of("b00").is_none() && w.table.topics_of("b01").is_some());
    assert_eq!(w.events.iter().filter(|e| matches!(e, Event::NameGone { .. })).count(), 10);
}

#[test]
fn one_broker_name_in_two_clusters_is_counted_once_per_change() {
    let mut w = World::default();
    let conflicts = |w: &World| {
        let of = |e: &Event| match e {
            Event::Conflict { kind, holder, claimant, .. } => Some(format!("{kind:?} {holder} {claimant}")),
            _ => None,
        };
        w.events.iter().filter_map(of).collect::<Vec<_>>().join("; ")
    };
    w.reg(Reg::new("c1", "b", 0, "a").topics(TWO));
    w.reg(Reg::new("c2", "b", 0, "x").topics(TWO));
    assert_eq!(conflicts(&w), "Address a (c1) x (c2); Cluster a (c1) x (c2)");
    assert_eq!((w.clusters(), w.ids("b")), ("c1:b c2:b".into(), "0=x".into()));
    assert_eq!(&*w.table.group("b").unwrap().cluster, "c1", "as in Java: of the first registration");
    w.reg(Reg::new("c2", "b", 0, "x").topics(TWO));
    assert_eq!(conflicts(&w), "");
    w.reg(Reg::new("c1", "b", 0, "a").topics(TWO));
    assert!(conflicts(&w).starts_with("Address x (c2) a (c1)"));
    w.unreg("c1", "b", "a");
    assert_eq!(w.clusters(), "", "nothing stays behind");
}

#[test]
fn an_outdated_master_is_distinguished_from_a_switch() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO).state(2));
    let before = super::world::bytes(&w.table);
    assert_eq!(w.reg(Reg::new("c", "b", 0, "x").topics(TWO).state(1)), Outcome::Outdated);
    let kind = |w: &World| match &w.events[..] {
        [Event::Conflict { kind, .. }] => Some(*kind),
        _ => None,
    };
    assert_eq!(kind(&w), Some(ConflictKind::StateVersion));
    assert_eq!(super::world::bytes(&w.table), before);
    w.reg(Reg::new("c", "b", 0, "x").topics(TWO).state(3));
    let conflict = |e: &Event| matches!(e, Event::Conflict { .. });
    assert!(!w.events.iter().any(conflict), "a controller's switch is no conflict");
    assert_eq!(w.ids("b"), "0=x");
}

#[test]
fn an_address_moves_with_its_broker() {
    let mut w = World::default();
    w.reg(Reg::new("c", "old", 0, "a").topics(TWO).filters(&["f"]).static_info("t1", "old", 1));
    w.reg(Reg::new("c", "new", 0, "a").topics(TWO));
    assert_eq!((w.ids("old"), w.ids("new")), (String::new(), "0=a".into()));
    assert_eq!((w.route("t1"), w.clusters()), ("new:4/6".into(), "c:new".into()));
    assert!(w.table.filter_servers(&key("c", "a")).is_none() && w.table.static_topic("t1").is_none());
    let moved = |e: &Event| matches!(e, Event::BrokerRemoved { cause: RemovedBy::Moved, .. });
    assert!(w.events.iter().any(moved));
    // The same address in another cluster, under another name, is another broker.
    w.reg(Reg::new("c2", "third", 0, "a").topics(TWO));
    assert_eq!(w.ids("new"), "0=a");
    // A broker that changes its cluster moves.
    w.reg(Reg::new("c3", "third", 0, "a").topics(TWO));
    assert!(w.table.live(&key("c2", "a")).is_none() && w.table.live(&key("c3", "a")).is_some());
}

#[test]
fn a_master_that_becomes_a_slave_takes_write_permission_along() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "x").topics(TWO).acting(true));
    w.reg(Reg::new("c", "b", 1, "y").topics(TWO).acting(true));
    w.reg(Reg::new("c", "b", 2, "x").topics(TWO).acting(true));
    assert_eq!((w.ids("b"), w.route("t1")), ("1=y 2=x".into(), "b:4/4".into()));
    w.reg(Reg::new("c", "b", 0, "y").topics(TWO).acting(true));
    assert_eq!((w.ids("b"), w.route("t1")), ("0=y 2=x".into(), "b:4/6".into()));
}

#[test]
fn a_candidate_with_id_minus_one_takes_no_permission() {
    for acting in [None, Some(false), Some(true)] {
        let mut w = World::default();
        let reg = |id, address| {
            let mut reg = Reg::new("c", "b", id, address).topics(TWO);
            reg.0.acting_master = acting;
            reg
        };
        w.reg(reg(0, "m"));
        w.reg(reg(-1, "n"));
        assert_eq!(w.route("t1"), "b:4/6", "acting {acting:?}");
        w.unreg("c", "b", "m");
        let expected = if acting == Some(true) { "b:4/4" } else { "b:4/6" };
        assert_eq!(w.route("t1"), expected);
        w.reg(reg(0, "m"));
        assert_eq!(w.route("t1"), "b:4/6");
    }
}

#[test]
fn a_deleted_topic_that_comes_back_is_reported() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO));
    w.delete("t1", None);
    let resurrected = |w: &World| {
        let of = |e: &Event| matches!(e, Event::TopicNew { resurrected: true, .. });
        w.events.iter().filter(|e| of(e)).count()
    };
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO));
    assert_eq!((resurrected(&w), w.route("t1")), (1, "b:4/6".into()));
    // Made again on purpose: no broker brings it back.
    w.delete("t1", None);
    w.run(Change::RegisterTopic(crate::command::RegisterTopic {
        topic: "t1".into(),
        queues: vec![("b".into(), super::world::queues(4))],
    }));
    assert_eq!(resurrected(&w), 0);
}

#[test]
fn the_timestamp_of_a_version_is_no_order() {
    let mut w = World::default();
    let mut future = Reg::new("c", "b", 0, "a").topics(TWO);
    future.0.data_version.timestamp = 2_524_608_000_000;
    w.reg(future);
    w.reg(Reg::new("c", "b", 0, "a").topics(&[("t1", 5), ("t2", 8)]).version(2));
    assert_eq!(w.route("t1"), "b:5/6");
}

#[test]
fn the_history_is_bounded_and_one_command_cannot_wash_it_away() {
    let mut w = World::default();
    w.reg(Reg::new("c", "first", 0, "a").topics(TWO));
    let many: Vec<String> = (0..11_000).map(|n| format!("m{n:05}")).collect();
    let many: Vec<(&str, i32)> = many.iter().map(|t| (&**t, 4)).collect();
    w.reg(Reg::new("c", "b", 0, "x").topics(&many));
    assert_eq!(w.events.len(), 11_001);
    let first = w.table.audit().next().unwrap();
    assert_eq!((first.at, &*first.origin.peer), (Position { index: 1, number: 0 }, "10.0.0.9:4711"));
    for n in 0..40 {
        let again: Vec<(&str, i32)> = many.iter().map(|(t, _)| (*t, n + 5)).collect();
        w.reg(Reg::new("c", "b", 0, "x").topics(&again).version(i64::from(n) + 2));
    }
    assert_eq!(w.table.audit().len(), crate::route_info::AUDIT_RECORDS_MAX);
}
