//! What must hold after any history.

use super::hostile::{TOPICS, change, resolve};
use super::world::{Reg, TWO, World, applied, bytes, key};
use crate::command::Name;
use crate::outcome::{Event, Outcome};
use crate::route_info::{BrokerKey, Loader, Prepared, RouteInfo};
use crate::{At, Change, Command, LogId, Position};
use proptest::collection::vec;
use proptest::prelude::*;

/// Applies one command as an entry of term 1.
fn entry(table: &mut RouteInfo, index: u64, command: &Command) -> (Outcome, Vec<Event>) {
    let mut applied = table.apply_entry(LogId { term: 1, index }, std::slice::from_ref(command));
    (applied.outcomes.remove(0), applied.events)
}

/// All that a route of this topic can show, as text.
fn view(table: &RouteInfo, topic: &str) -> String {
    let Some(found) = table.topic(topic) else { return String::new() };
    let mut view = format!("{:?} {:?}", found.queues, table.static_topic(topic));
    for (name, _) in found.queues.iter() {
        let group = table.group(name).unwrap();
        view += &format!("{name} {} {:?} {} ", group.cluster, group.zone, group.acting_master);
        for (id, address) in group.brokers.iter() {
            let key = BrokerKey { cluster: group.cluster.clone(), address: address.clone() };
            view += &format!("{id} {address} {:?} ", table.filter_servers(&key));
        }
    }
    let settings = table.settings();
    let order = table.kv(crate::route_info::ORDER_TOPIC_CONFIG, topic);
    view + &format!("{order:?} {} {}", settings.order_message_enable, settings.support_acting_master)
}

fn load(chunks: &[Vec<u8>]) -> RouteInfo {
    let mut loader = Loader::new();
    for chunk in chunks {
        loader.chunk(chunk).unwrap();
    }
    loader.finish().unwrap()
}

fn saved(table: &RouteInfo) -> Vec<Vec<u8>> {
    table.chunks().map(Result::unwrap).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    /// Invariants hold; what is refused or changes nothing leaves every byte as it was; the leader's last look
    /// says beforehand what apply does.
    #[test]
    fn any_history(changes in vec(change(), 1..40)) {
        let mut table = RouteInfo::default();
        for (index, change) in (1..).zip(changes) {
            let command = resolve(&table, change);
            let before = bytes(&table);
            let prepared = table.prepare(command.clone());
            let at = At { term: 1, index, number: 0 };
            let decided_at_another_node = matches!(&command.change,
                Change::RemoveBrokers(r) if r.decided_in_term.is_some_and(|term| term != 1));
            match &prepared {
                Prepared::Done(outcome) => {
                    let (after, came_to, events) = applied(&table, at, &command);
                    prop_assert_eq!(outcome, &came_to);
                    prop_assert_eq!(bytes(&after), before.clone());
                    prop_assert!(events.is_empty() || outcome.is_refusal());
                }
                Prepared::Propose(prepared) => {
                    let (after, outcome, events) = applied(&table, at, prepared);
                    prop_assert!(!outcome.is_refusal());
                    if !decided_at_another_node {
                        prop_assert_ne!(bytes(&after), before.clone(), "{:?}", prepared);
                        prop_assert!(!events.is_empty() || matches!(command.change, Change::RegisterBroker(_)));
                    }
                }
            }
            let (outcome, _) = entry(&mut table, index, &command);
            if let Err(broken) = table.check_invariants() {
                prop_assert!(false, "{} after {:?} ({:?})", broken, command, outcome);
            }
            if outcome.is_refusal() || outcome == (Outcome::Done { changed: false }) {
                prop_assert_eq!(bytes(&table), before);
            }
        }
    }

    /// The same log gives the same bytes and hash, also when a node goes on from a snapshot.
    #[test]
    fn same_log_same_bytes(changes in vec(change(), 1..40), cut in 0usize..40) {
        let (mut one, mut two) = (RouteInfo::default(), RouteInfo::default());
        for (step, change) in changes.into_iter().enumerate() {
            if step == cut {
                two = load(&saved(&two));
            }
            let command = resolve(&one, change);
            let index = step as u64 + 1;
            prop_assert_eq!(entry(&mut one, index, &command), entry(&mut two, index, &command));
        }
        prop_assert_eq!(one.state_hash(), two.state_hash());
        prop_assert_eq!(saved(&one), saved(&two));
        prop_assert_eq!(saved(&load(&saved(&one))), saved(&one));
    }

    /// Whenever anything changes that a route shows, one of the versions that the route was encoded at changes.
    #[test]
    fn versions_move_with_what_a_route_shows(changes in vec(change(), 1..40)) {
        let mut table = RouteInfo::default();
        for (index, change) in (1..).zip(changes) {
            let command = resolve(&table, change);
            let before = table.clone();
            entry(&mut table, index, &command);
            let versions = |t: &RouteInfo, topic: &str| -> Option<(Position, Position)> {
                Some((t.topic(topic)?.version, t.brokers_version()))
            };
            for topic in TOPICS {
                if view(&before, topic) != view(&table, topic) {
                    prop_assert_ne!(versions(&before, topic), versions(&table, topic), "{:?}", command);
                }
            }
            for (name, _) in before.groups() {
                let moved = before.group_version(name) != table.group_version(name);
                let touched = format!("{:?}", before.group(name)) != format!("{:?}", table.group(name))
                    || topics_on(&before, name) != topics_on(&table, name);
                prop_assert!(moved || !touched, "{} {:?}", name, command);
            }
        }
    }
}

fn topics_on(table: &RouteInfo, broker: &Name) -> String {
    let topics = table.topics().filter_map(|(name, topic)| Some((name, topic.queue(broker)?)));
    format!("{:?}", topics.collect::<Vec<_>>())
}

#[test]
fn one_topic_leaves_the_other_routes_alone() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO));
    w.reg(Reg::new("c", "b2", 0, "a2").topics(TWO));
    let before = w.table.clone();
    w.reg(Reg::new("c", "b", 0, "a").topics(&[("t1", 5), ("t2", 8)]).version(2));
    assert_eq!(w.table.brokers_version(), before.brokers_version());
    assert_eq!(w.table.topic("t2").unwrap().version, before.topic("t2").unwrap().version);
    assert_ne!(w.table.topic("t1").unwrap().version, before.topic("t1").unwrap().version);
    assert_eq!(w.table.group_version("b2"), before.group_version("b2"));
    let before = w.table.clone();
    w.set("waitSecondsForService", "46");
    assert_eq!(w.table.brokers_version(), before.brokers_version());
    assert_eq!(w.table.group_version("b"), before.group_version("b"));
    w.set("deleteTopicWithBrokerRegistration", "true");
    assert_ne!(w.table.group_version("b"), before.group_version("b"));
    assert_ne!(w.table.group_version("unknown"), before.group_version("unknown"));
    assert_eq!(w.table.brokers_version(), before.brokers_version());
}

#[test]
fn names_are_shared() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO));
    w.reg(Reg::new("c", "b2", 0, "a2").topics(TWO));
    w.reg(Reg::new("c", "b", 1, "s").topics(TWO).acting(true));
    for table in [w.table.clone(), load(&saved(&w.table))] {
        let (group, _) = table.groups().next().unwrap();
        let (topic, queues) = table.topics().next().unwrap();
        let same = |a: &Name, b: &Name| std::sync::Arc::ptr_eq(a, b);
        assert!(same(group, &queues.queues[0].0));
        assert!(same(group, &table.live(&key("c", "a")).unwrap().broker));
        assert!(same(group, table.clusters().next().unwrap().1.get_min().unwrap()));
        for name in ["b", "b2"] {
            assert!(same(topic, table.topics_of(name).unwrap().get_min().unwrap()));
        }
    }
}

#[test]
fn the_hash_says_which_table_differs() {
    let mut one = World::default();
    one.reg(Reg::new("c", "b", 0, "a").topics(TWO));
    let (empty, full) = (RouteInfo::default().state_hash(), one.table.state_hash());
    assert_eq!(full.differing(&full), Vec::<&str>::new());
    let all = ["topics", "groups", "clusters", "live", "audit", "versions"];
    assert_eq!(full.differing(&empty), all);
    let mut two = one.clone();
    two.set("clusterTest", "true");
    assert_eq!(two.table.state_hash().differing(&full), ["settings", "audit"]);
    assert!(full.to_string().starts_with("1:") && full.to_string().len() == 34);
    // Entries that change nothing move the revision and not the hash.
    one.entry(vec![]);
    assert_eq!(one.table.state_hash(), full);
}
