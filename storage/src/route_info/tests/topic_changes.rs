//! What is known of the topics that lately changed, and registrations that are compared only there.

use super::hostile::{TOPICS, change, honest_registration, other_change, resolve};
use super::world::{Reg, TWO, World, command, queues};
use crate::command::{Basis, Name, Registration, TopicConfig};
use crate::route_info::{RegistrationCheck, RouteInfo};
use crate::{Change, LogId, Position};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// A registration that was found to stand in the table at a group version.
type Known = (Registration, Position);

#[derive(Debug, Clone)]
enum Step {
    Other(Change),
    Register(Registration),
    /// A broker registers again what it registered before, but for some topics.
    Again {
        known: Index,
        version: i64,
        topics: Vec<(Name, Option<i32>)>,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let topic = (select(TOPICS).prop_map(Name::from), prop::option::weighted(0.8, select(vec![4, 8])));
    let again = (any::<Index>(), 1i64..4, vec(topic, 0..3));
    prop_oneof![
        1 => other_change().prop_map(Step::Other),
        2 => honest_registration().prop_map(Step::Register),
        5 => again.prop_map(|(known, version, topics)| Step::Again { known, version, topics }),
    ]
}

fn changed(known: &Registration, version: i64, topics: Vec<(Name, Option<i32>)>) -> Registration {
    let mut next = known.clone();
    next.data_version.counter = version;
    for (topic, read) in topics {
        next.topics.retain(|config| config.topic != topic);
        next.topics.extend(read.map(|read| TopicConfig { topic, queues: queues(read) }));
    }
    next.topics.sort_by(|a, b| a.topic.cmp(&b.topic));
    next
}

/// A registration without the topics that it has in common with a known one, if it can be judged without them.
fn partly(table: &RouteInfo, whole: &Registration, (known, version): &Known) -> Option<Registration> {
    let same =
        |r: &Registration| (r.cluster.clone(), r.broker.clone(), r.address.clone(), r.id, r.acting_master);
    if same(whole) != same(known) || table.settings().delete_topic_with_broker_registration {
        return None;
    }
    let moved = table.topics_changed_since(&whole.broker, *version)?;
    let mut part = whole.clone();
    part.topics.retain(|config| !known.topics.contains(config) || moved.contains(&config.topic));
    part.basis = Basis::Difference {
        group_version: table.group_version(&whole.broker),
        topic_count: u32::try_from(whole.topics.len()).unwrap(),
        absent: vec![],
    };
    Some(part)
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    /// What is not named as changed is as it was.
    #[test]
    fn all_else_is_as_it_was(changes in vec(change(), 1..40)) {
        let mut history = vec![RouteInfo::default()];
        for (index, change) in (1u64..).zip(changes) {
            let mut table = history.last().unwrap().clone();
            let command = resolve(&table, change);
            table.apply_entry(LogId { term: 1, index }, &[command]);
            for then in history.iter().rev().take(12) {
                for (name, group) in then.groups() {
                    let Some(moved) = table.topics_changed_since(name, then.group_version(name)) else { continue };
                    let now = table.group(name).unwrap();
                    prop_assert_eq!(
                        (&now.cluster, &now.zone, now.acting_master, &now.brokers),
                        (&group.cluster, &group.zone, group.acting_master, &group.brokers)
                    );
                    let deletes = |table: &RouteInfo| table.settings().delete_topic_with_broker_registration;
                    prop_assert_eq!(deletes(&table), deletes(then));
                    for topic in TOPICS.iter().filter(|topic| !moved.contains(&Name::from(**topic))) {
                        prop_assert_eq!(table.queue(topic, name), then.queue(topic, name), "{} {}", topic, name);
                    }
                }
            }
            history.push(table);
        }
    }

    /// A registration that is compared only where it may differ comes to what it comes to as a whole.
    #[test]
    fn a_part_is_judged_as_the_whole(steps in vec(step(), 1..40)) {
        let mut table = RouteInfo::default();
        let mut known: Vec<Known> = Vec::new();
        for (index, step) in (1u64..).zip(steps) {
            let whole = match step {
                Step::Other(change) => {
                    let command = resolve(&table, change);
                    table.apply_entry(LogId { term: 1, index }, &[command]);
                    continue;
                }
                Step::Register(whole) => whole,
                Step::Again { .. } if known.is_empty() => continue,
                Step::Again { known: which, version, topics } => changed(&which.get(&known).0, version, topics),
            };
            let check = table.check_registration(&whole);
            for known in &known {
                if let Some(part) = partly(&table, &whole, known) {
                    prop_assert_eq!(table.check_registration(&part), check.clone(), "{:?} {:?}", part, known);
                }
            }
            if let RegistrationCheck::Differs(difference) = check {
                table.apply_entry(LogId { term: 1, index }, &[command(Change::RegisterBroker(difference))]);
            }
            if table.holds_topics(&whole) && table.group(&whole.broker).is_some() {
                let version = table.group_version(&whole.broker);
                known.push((whole, version));
            }
        }
    }
}

#[test]
fn the_last_changes_are_known() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO));
    let first = w.table.group_version("b");
    let mut versions = vec![first];
    for read in 5..20 {
        w.reg(Reg::new("c", "b", 0, "a").topics(&[("t1", read), ("t2", 8)]).version(i64::from(read)));
        versions.push(w.table.group_version("b"));
    }
    let since = |w: &World, version| w.table.topics_changed_since("b", version);
    let names = |n: usize| Some(vec![Name::from("t1"); n]);
    assert_eq!(since(&w, versions[15]), names(0));
    assert_eq!(since(&w, versions[14]), names(1));
    assert_eq!(since(&w, versions[7]), names(8));
    assert_eq!(since(&w, versions[6]), None, "only the last few");
    // Another broker's news are no step of this name, and do not hide its own.
    w.reg(Reg::new("c", "x", 0, "x").topics(TWO));
    assert_eq!(since(&w, versions[14]), names(1));
    w.write_permission("b", false);
    assert_eq!(since(&w, versions[15]), None, "a permission is no step");
    let wiped = w.table.group_version("b");
    w.reg(Reg::new("c", "b", 0, "a").topics(&[("t1", 1), ("t2", 8)]).version(50));
    assert_eq!(since(&w, wiped), Some(vec!["t1".into(), "t2".into()]));
    assert_eq!(since(&w, versions[15]), None, "what came before is not known any more");
    w.reg(Reg::new("c", "b", 1, "s"));
    assert_eq!(since(&w, wiped), None, "a slave more is no step");
}

#[test]
fn a_step_of_many_topics_is_not_kept() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO));
    let first = w.table.group_version("b");
    let names: Vec<String> = (0..100).map(|n| format!("n{n}")).collect();
    let topics: Vec<(&str, i32)> = names.iter().map(|name| (&**name, 4)).collect();
    w.reg(Reg::new("c", "b", 0, "a").topics(&topics).version(2));
    assert_eq!(w.table.topics_changed_since("b", first), None);
    let many = w.table.group_version("b");
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO).version(3));
    assert_eq!(w.table.topics_changed_since("b", many), Some(vec![]), "registered, but as in the table");
}

#[test]
fn a_table_holds_topics_only_as_they_would_be_set() {
    let mut w = World::default();
    let whole = Reg::new("c", "b", 0, "a").topics(TWO);
    assert!(!w.table.holds_topics(&whole.0));
    w.reg(whole.clone());
    assert!(w.table.holds_topics(&whole.0));
    // Not looked at with its version, but another version would bring it.
    let quiet = Reg::new("c", "b", 0, "a").topics(&[("t1", 5), ("t2", 8)]).0;
    assert_eq!(w.table.check_registration(&quiet), RegistrationCheck::Unchanged);
    assert!(!w.table.holds_topics(&quiet));
    w.write_permission("b", false);
    assert!(!w.table.holds_topics(&whole.0));
}
