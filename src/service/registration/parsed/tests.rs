//! Parsing with skipped topics agrees with parsing the whole, over any history.

use super::*;
use crate::protocol::registration::parse_registration;
use crate::wire::RemotingCommand;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use std::collections::BTreeMap;
use storage::command::{
    Change, Command, DeleteTopic, Name, Origin, QueueConfig, RegisterTopic, Removal, RemoveBrokers,
    SetWritePermission, UpdateSettings,
};
use storage::{LogId, command::Cause};

const TOPICS: u8 = 60;

#[derive(Debug, Clone)]
struct SentRegistration {
    broker: u8,
    id: i64,
    acting: Option<bool>,
    /// Topics that the broker changes from now on, or sends no more.
    topics: BTreeMap<u8, Option<u8>>,
    /// In another order, with blanks, or with a name twice.
    style: u8,
    new_version: bool,
    /// Age of the table that the parser uses, in entries.
    lag: usize,
}

#[derive(Debug, Clone)]
enum Step {
    Send(SentRegistration),
    WritePermission(u8, bool),
    DeleteTopic(u8),
    RegisterTopic(u8, u8),
    DeleteAbsent(bool),
    Remove(u8, i64),
}

fn step() -> impl Strategy<Value = Step> {
    let id = || prop_oneof![12 => Just(0i64), 2 => Just(1), 1 => Just(-1)];
    let acting = prop_oneof![12 => Just(Some(false)), 2 => Just(Some(true)), 1 => Just(None)];
    let topics = btree_map(0..TOPICS, prop::option::weighted(0.8, 4u8..8), 0..3);
    let style = prop_oneof![12 => Just(0u8), 3 => 1u8..6];
    let send = (0u8..2, id(), acting, topics, style, prop::bool::weighted(0.8), 0usize..3).prop_map(
        |(broker, id, acting, topics, style, new_version, lag)| {
            Step::Send(SentRegistration { broker, id, acting, topics, style, new_version, lag })
        },
    );
    prop_oneof![
        16 => send,
        1 => (0u8..2, any::<bool>()).prop_map(|(broker, on)| Step::WritePermission(broker, on)),
        1 => (0..TOPICS).prop_map(Step::DeleteTopic),
        1 => (0..TOPICS, 0u8..2).prop_map(|(topic, broker)| Step::RegisterTopic(topic, broker)),
        1 => prop::bool::weighted(0.2).prop_map(Step::DeleteAbsent),
        1 => (0u8..2, id()).prop_map(|(broker, id)| Step::Remove(broker, id)),
    ]
}

fn address(broker: u8, id: i64) -> String {
    format!("10.0.{broker}.{}:1", id + 2)
}

fn body(topics: &BTreeMap<u8, u8>, counter: u64, style: u8) -> String {
    let blank = if style == 1 { " " } else { "" };
    let mut table: Vec<String> = topics
        .iter()
        .map(|(topic, read)| {
            format!(
                "\"t{topic}\":{{{blank}\"topicName\":\"t{topic}\",\"readQueueNums\":{read},\"perm\":6,\"attributes\":{{}}}}"
            )
        })
        .collect();
    match style {
        2 => table.reverse(),
        3 => table.rotate_left(topics.len() / 2),
        4 => table.extend(table.get(3).cloned()),
        5 => table.extend(table.get(3).map(|topic| topic.replace("\"perm\":6", "\"perm\":4"))),
        _ => {}
    }
    let (version, table) = (format!("{{\"counter\":{counter}}}"), table.join(","));
    format!(
        "{{\"topicConfigSerializeWrapper\":{{\"topicConfigTable\":{{{table}}},\"dataVersion\":{version}}},\"filterServerList\":[]}}"
    )
}

#[derive(Default)]
struct Run {
    history: Vec<RouteInfo>,
    /// What each broker sends: topics and version.
    tables: BTreeMap<(u8, i64), (BTreeMap<u8, u8>, u64)>,
    known: BTreeMap<(u8, i64), Arc<KnownTopics>>,
    skipped: usize,
}

impl Run {
    fn table(&self) -> RouteInfo {
        self.history.last().cloned().unwrap_or_default()
    }

    fn apply(&mut self, change: Change) -> Position {
        let index = self.history.len() as u64 + 1;
        let mut table = self.table();
        table.apply_entry(LogId { term: 1, index }, &[Command { origin: Origin::default(), change }]);
        self.history.push(table);
        Position { index, number: 0 }
    }

    fn send(&mut self, sent: &SentRegistration) -> Result<(), TestCaseError> {
        let key = (sent.broker, sent.id);
        let all = || (0..TOPICS).map(|topic| (topic, 4)).collect();
        let (topics, counter) = self.tables.entry(key).or_insert_with(|| (all(), 1));
        for (topic, read) in &sent.topics {
            match read {
                Some(read) => topics.insert(*topic, *read),
                None => topics.remove(topic),
            };
        }
        *counter += u64::from(sent.new_version);
        let mut command = RemotingCommand::request(103, 1)
            .with("clusterName", "c")
            .with("brokerName", &format!("b{}", sent.broker))
            .with("brokerAddr", &address(sent.broker, sent.id))
            .with("brokerId", &sent.id.to_string())
            .with_body(body(topics, *counter, sent.style));
        if let Some(acting) = sent.acting {
            command = command.with("enableActingMaster", if acting { "true" } else { "false" });
        }
        let whole = parse_registration(&command).unwrap();
        let old = self.history.iter().rev().nth(sent.lag).cloned().unwrap_or_default();
        let known = self.known.get(&key).filter(|known| known.is_usable(&old)).cloned();
        let header = RegistrationHeader::parse(&command);
        let parse = |known| {
            ParsedRegistration::new(&header, &command.body, known, RegistrationLimits::default()).unwrap()
        };
        let parsed = parse(known);
        self.skipped += usize::from(!parsed.is_whole());
        let (table, expected) = (self.table(), self.table().check_registration(&whole));
        let parsed = match parsed.compare(&table) {
            Some(comparison) => {
                prop_assert_eq!(&comparison.check, &expected);
                self.remember(key, comparison.known_topics);
                parsed
            }
            None => parse(None),
        };
        if let RegistrationCheck::Differs(difference) = expected {
            let position = self.apply(Change::RegisterBroker(difference));
            prop_assert_eq!(self.table().check_registration(&whole), RegistrationCheck::Unchanged);
            let known = parsed.known_topics_at(&self.table(), position);
            self.remember(key, known);
        }
        Ok(())
    }

    fn remember(&mut self, key: (u8, i64), known: Option<KnownTopics>) {
        if let Some(known) = known {
            self.known.insert(key, Arc::new(known));
        }
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        let broker = |broker: u8| Name::from(format!("b{broker}"));
        let topic = |topic: u8| Name::from(format!("t{topic}"));
        let change = match step {
            Step::Send(sent) => return self.send(&sent),
            Step::WritePermission(of, writable) => {
                Change::SetWritePermission(SetWritePermission { broker: broker(of), writable })
            }
            Step::DeleteTopic(of) => Change::DeleteTopic(DeleteTopic { topic: topic(of), cluster: None }),
            Step::RegisterTopic(of, on) => {
                let queues = QueueConfig { read: 9, write: 9, perm: 6, sys_flag: 0 };
                Change::RegisterTopic(RegisterTopic { topic: topic(of), queues: vec![(broker(on), queues)] })
            }
            Step::DeleteAbsent(on) => Change::UpdateSettings(UpdateSettings {
                properties: vec![("deleteTopicWithBrokerRegistration".into(), on.to_string().into())],
            }),
            Step::Remove(of, id) => {
                let removal = Removal {
                    cluster: "c".into(),
                    broker: broker(of),
                    address: address(of, id).into(),
                    incarnation: None,
                    cause: Cause::Asked,
                };
                let removals = RemoveBrokers { brokers: vec![removal], decided_in_term: None };
                let command = Command { origin: Origin::default(), change: Change::RemoveBrokers(removals) };
                match self.table().prepare(command) {
                    storage::route_info::Prepared::Propose(command) => command.change,
                    storage::route_info::Prepared::Done(_) => return Ok(()),
                }
            }
        };
        self.apply(change);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    /// Whatever is skipped, the comparison gives what it gives for the whole registration.
    #[test]
    fn skipped_topics_make_no_difference(steps in vec(step(), 1..50)) {
        let mut run = Run::default();
        for step in steps {
            run.step(step)?;
        }
    }
}

#[test]
fn one_changed_topic_is_read_with_its_block_only() {
    let mut run = Run::default();
    let send = |topic: u8, read: u8| SentRegistration {
        broker: 0,
        id: 0,
        acting: Some(false),
        topics: BTreeMap::from([(topic, Some(read))]),
        style: 0,
        new_version: true,
        lag: 0,
    };
    run.send(&send(0, 4)).unwrap();
    assert_eq!(run.skipped, 0);
    for topic in 0..TOPICS {
        run.send(&send(topic, 5)).unwrap();
    }
    assert_eq!(run.skipped, usize::from(TOPICS));
    assert_eq!(run.history.len(), usize::from(TOPICS) + 1, "each was a change");
}
