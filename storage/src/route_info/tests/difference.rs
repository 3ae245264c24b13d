//! Differences against whole registrations.

use super::hostile::{honest_registration, other_change, resolve};
use super::world::{Reg, TWO, World, applied, bytes, command};
use crate::command::{Basis, Registration, TopicConfig};
use crate::outcome::Outcome;
use crate::route_info::{RegistrationCheck, RouteInfo};
use crate::{At, Change, LogId};
use proptest::collection::vec;
use proptest::prelude::*;

/// What happens: a registration as seen by an edge whose table is that many entries old, or anything else.
#[derive(Debug, Clone)]
enum Step {
    Register { whole: Box<Registration>, first_look: usize, second_look: usize },
    Other(Change),
}

fn step() -> impl Strategy<Value = Step> {
    let register =
        (honest_registration(), 0usize..4, 0usize..2).prop_map(|(whole, first_look, second_look)| {
            Step::Register { whole: Box::new(whole), first_look, second_look }
        });
    prop_oneof![3 => register, 2 => other_change().prop_map(Step::Other)]
}

/// What an edge proposes, from an old table to the present one; `None` when it proposes nothing.
fn proposals(whole: &Registration, looks: &[&RouteInfo]) -> Option<Vec<Registration>> {
    let mut proposals = Vec::new();
    for table in looks {
        match table.check_registration(whole) {
            RegistrationCheck::Unchanged | RegistrationCheck::Refused(_) if proposals.is_empty() => {
                return None;
            }
            RegistrationCheck::Unchanged | RegistrationCheck::Refused(_) => break,
            RegistrationCheck::Differs(difference) => proposals.push(*difference),
        }
    }
    proposals.push(whole.clone());
    Some(proposals)
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    /// However old the table is that a difference was made from, and whatever came in between, the outcome is
    /// that of the whole registration applied at the same place.
    #[test]
    fn a_difference_is_the_whole(steps in vec(step(), 1..30)) {
        let mut history = vec![RouteInfo::default()];
        let mut model = RouteInfo::default();
        for (index, step) in (1u64..).zip(steps) {
            let now = history.last().unwrap().clone();
            let back = |n: usize| &history[history.len().saturating_sub(n + 1)];
            let at = At { term: 1, index, number: 0 };
            let (whole, tried) = match step {
                Step::Other(change) => {
                    let command = resolve(&now, change);
                    (command.clone(), vec![command])
                }
                Step::Register { whole, first_look, second_look } => {
                    let Some(tried) = proposals(&whole, &[back(first_look), back(second_look)]) else { continue };
                    let register = |r: Registration| command(Change::RegisterBroker(Box::new(r)));
                    (register(*whole), tried.into_iter().map(register).collect())
                }
            };
            let (mut after, mut outcome) = (now.clone(), None);
            for command in &tried {
                let (table, came_to, _) = applied(&now, at, command);
                if matches!(came_to, Outcome::Conflict { .. }) {
                    prop_assert_eq!(bytes(&table), bytes(&now));
                    continue;
                }
                (after, outcome) = (table, Some(came_to));
                break;
            }
            let (mut next_model, expected, _) = applied(&model, at, &whole);
            prop_assert_eq!(outcome, Some(expected), "{:?}", whole);
            prop_assert_eq!(bytes(&after), bytes(&next_model), "{:?}", whole);
            for table in [&mut after, &mut next_model] {
                table.revision = Some(LogId { term: 1, index });
            }
            history.push(after);
            model = next_model;
        }
    }

    /// A difference made from the present table is taken, and afterwards nothing differs.
    #[test]
    fn a_difference_to_the_present_table_is_taken(steps in vec(step(), 1..30)) {
        let mut table = RouteInfo::default();
        for (index, step) in (1u64..).zip(steps) {
            let at = At { term: 1, index, number: 0 };
            let change = match step {
                Step::Other(change) => resolve(&table, change).change,
                Step::Register { whole, .. } => match table.check_registration(&whole) {
                    RegistrationCheck::Differs(difference) => {
                        let register = command(Change::RegisterBroker(difference));
                        let (after, outcome, _) = applied(&table, at, &register);
                        prop_assert_eq!(outcome, Outcome::Done { changed: true });
                        prop_assert_eq!(after.check_registration(&whole), RegistrationCheck::Unchanged);
                        register.change
                    }
                    RegistrationCheck::Unchanged => {
                        let register = command(Change::RegisterBroker(whole));
                        let (after, outcome, events) = applied(&table, at, &register);
                        prop_assert_eq!((outcome, events), (Outcome::Done { changed: false }, vec![]));
                        prop_assert_eq!(bytes(&after), bytes(&table));
                        continue;
                    }
                    RegistrationCheck::Refused(expected) => {
                        let (after, outcome, _) = applied(&table, at, &command(Change::RegisterBroker(whole)));
                        prop_assert_eq!(outcome, expected);
                        prop_assert_eq!(bytes(&after), bytes(&table));
                        continue;
                    }
                },
            };
            table.apply_entry(LogId { term: 1, index }, &[command(change)]);
        }
    }
}

#[test]
fn one_changed_topic_of_ten_thousand_is_a_small_entry() {
    let mut w = World::default();
    let names: Vec<String> = (0..10_000).map(|n| format!("a topic with an ordinary name {n:05}")).collect();
    let mut topics: Vec<(&str, i32)> = names.iter().map(|t| (&**t, 8)).collect();
    w.reg(Reg::new("DefaultCluster", "broker-a", 0, "192.168.0.17:10911").topics(&topics));
    topics[4711].1 = 16;
    let whole = Reg::new("DefaultCluster", "broker-a", 0, "192.168.0.17:10911").topics(&topics).version(2).0;
    let RegistrationCheck::Differs(difference) = w.table.check_registration(&whole) else {
        panic!("one topic differs")
    };
    assert_eq!(difference.topics.len(), 1);
    let entry = vec![command(Change::RegisterBroker(difference))];
    let size = crate::format::encode("entry", &entry).unwrap().len();
    assert!(size < 2048, "{size} bytes");
    assert_eq!(w.run(entry[0].change.clone()), Outcome::Done { changed: true });
    assert_eq!(w.route(&names[4711]), "broker-a:16/6");
}

#[test]
fn a_difference_against_another_version_is_a_conflict() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO));
    let whole = Reg::new("c", "b", 0, "a").topics(&[("t1", 5), ("t2", 8)]).version(2).0;
    let RegistrationCheck::Differs(difference) = w.table.check_registration(&whole) else {
        panic!("a topic differs")
    };
    w.write_permission("b", false);
    let group_version = w.table.group_version("b");
    assert_eq!(w.run(Change::RegisterBroker(difference)), Outcome::Conflict { group_version });
    assert_eq!(w.route("t1"), "b:4/4");
}

#[test]
fn a_difference_does_not_outlive_its_broker_name() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO));
    w.set("deleteTopicWithBrokerRegistration", "true");
    let whole = Reg::new("c", "b", 0, "a").topics(&[("t1", 5), ("t2", 8)]).version(2).0;
    let RegistrationCheck::Differs(difference) = w.table.check_registration(&whole) else {
        panic!("a topic differs")
    };
    w.unreg("c", "b", "a");
    let conflict = Outcome::Conflict { group_version: w.table.group_version("b") };
    assert_eq!(w.run(Change::RegisterBroker(difference)), conflict);
}

#[test]
fn a_first_difference_still_counts_its_topics() {
    let w = World::default();
    let single = Reg::new("c", "b", 0, "a").topics(&[("t1", 4)]).0;
    assert_eq!(w.table.check_registration(&single), RegistrationCheck::Refused(Outcome::SingleTopic));
    let mut w = World::default();
    let mut difference = single;
    difference.basis =
        Basis::Difference { group_version: w.table.group_version("b"), topic_count: 2, absent: vec![] };
    assert_eq!(w.run(Change::RegisterBroker(Box::new(difference))), Outcome::Done { changed: true });
}

#[test]
fn topics_in_any_order_count_as_in_a_map() {
    let mut w = World::default();
    let mut reg = Reg::new("c", "b", 0, "a").topics(&[("t2", 1), ("t1", 2), ("t2", 3)]);
    assert_eq!(w.reg(reg.clone()), Outcome::Done { changed: true });
    assert_eq!((w.route("t1"), w.route("t2")), ("b:2/6".into(), "b:3/6".into()), "the last one counts");
    let twice = TopicConfig { topic: "t".into(), queues: super::world::queues(1) };
    reg = Reg::new("c", "x", 0, "x");
    reg.0.topics = vec![twice.clone(), twice];
    assert_eq!(w.reg(reg), Outcome::SingleTopic, "one name twice is one topic");
}
