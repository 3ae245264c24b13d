//! Every kind of command, at its limits, on the whole way behind the edge: entry, log record, apply, snapshot, install, and
//! the messages between nodes that carry it.

use super::*;
use crate::consensus::conversions;
use crate::peer::frame::{Frame, Kind};
use crate::peer::message::{self, Append, Request};
use proptest::prelude::*;
use std::sync::{Arc, mpsc};
use storage::command::*;
use storage::directory::Directory;
use storage::files::SystemFiles;
use storage::limits::{COMMAND_BYTES_MAX, PEER_FRAME_BYTES_MAX};
use storage::log::{Entry, Log, LogOptions, Payload};
use storage::route_info::Loader;
use storage::runtime::SystemRuntime;
use storage::{Change, LogId, Outcome, Position, RouteInfo, Vote};

const ID: LogId = LogId { term: 1, index: 1 };
const VOTE: Vote = Vote { term: 1, node: 1, committed: true };

/// Kinds of commands by what makes them large.
#[derive(Debug, Clone, Copy)]
enum Large {
    Topics,
    StaticQueues,
    Absent,
    FilterServers,
    Removals,
    RegisteredQueues,
    DeletedName,
    PermissionName,
    KvValue,
    KvKey,
    Settings,
    Guard,
}

const ALL: [Large; 12] = [
    Large::Topics,
    Large::StaticQueues,
    Large::Absent,
    Large::FilterServers,
    Large::Removals,
    Large::RegisteredQueues,
    Large::DeletedName,
    Large::PermissionName,
    Large::KvValue,
    Large::KvKey,
    Large::Settings,
    Large::Guard,
];

/// What names and numbers a command has. Small numbers take the fewest bytes, and grow most when they are read.
#[derive(Debug, Clone, Copy)]
struct Content {
    character: char,
    name_characters: usize,
    number: i32,
}

impl Content {
    fn name(self, number: usize) -> Name {
        format!("{number}{}", String::from(self.character).repeat(self.name_characters)).into()
    }

    fn queues(self) -> QueueConfig {
        let Self { number, .. } = self;
        QueueConfig { read: number, write: number, perm: number, sys_flag: number }
    }
}

/// A command of about so many bytes.
fn command(large: Large, bytes: usize, content: Content) -> Command {
    let long = || Name::from("x".repeat(bytes));
    // Each item takes at least so much; `with_at_most` makes it exact.
    let items = bytes / (content.character.len_utf8() * content.name_characters + 8);
    let names = || (0..items).map(|number| content.name(number));
    let queues = content.queues();
    let registration = |adjust: &dyn Fn(&mut Registration)| {
        let mut r = Registration::of_master("c".into(), "b".into(), "a".into());
        r.topics = ["s", "t"].map(|topic| TopicConfig { topic: topic.into(), queues }).into();
        adjust(&mut r);
        r.topics.sort_by(|a, b| a.topic.cmp(&b.topic));
        Change::RegisterBroker(Box::new(r))
    };
    let change = match large {
        Large::Topics => {
            registration(&|r| r.topics.extend(names().map(|topic| TopicConfig { topic, queues })))
        }
        Large::StaticQueues => registration(&|r| {
            let ids = |per: i32| (0..per).map(|id| (id - per / 2, content.number % 64)).collect();
            let info = |queues: i32| StaticTopicInfo {
                topic: None,
                broker: Some("b".into()),
                total_queues: queues,
                epoch: i64::from(content.number),
                scope: None,
                dirty: true,
                current_ids: Some(ids(queues)),
            };
            let of_many = (0..bytes / 510).map(|number| (Name::from(format!("{number:06}")), info(246)));
            r.static_infos = of_many.collect();
        }),
        Large::Absent => registration(&|r| {
            let group_version = Position { index: 0, number: u32::MAX };
            r.basis = Basis::Difference { group_version, topic_count: u32::MAX, absent: names().collect() };
        }),
        Large::FilterServers => registration(&|r| r.filter_servers = Some(names().collect())),
        Large::Removals => {
            let removal = |address: Name| Removal {
                cluster: "c".into(),
                broker: "b".into(),
                address,
                incarnation: Some(Position { index: u64::MAX, number: u32::MAX }),
                cause: Cause::Expired { idle_ms: u64::MAX },
            };
            let brokers = names().step_by(4).map(removal).collect();
            Change::RemoveBrokers(RemoveBrokers { brokers, decided_in_term: Some(u64::MAX) })
        }
        Large::RegisteredQueues => Change::RegisterTopic(RegisterTopic {
            topic: "t".into(),
            queues: names().map(|broker| (broker, queues)).collect(),
        }),
        Large::DeletedName => Change::DeleteTopic(DeleteTopic { topic: long(), cluster: Some("c".into()) }),
        Large::PermissionName => {
            Change::SetWritePermission(SetWritePermission { broker: long(), writable: false })
        }
        Large::KvValue => {
            Change::PutKv(PutKv { namespace: "n".into(), key: "k".into(), value: Some(long()) })
        }
        Large::KvKey => Change::DeleteKv(DeleteKv { namespace: "n".into(), key: long() }),
        Large::Settings => Change::UpdateSettings(UpdateSettings {
            properties: names().map(|key| (key, "true".into())).collect(),
        }),
        Large::Guard => Change::SetEvictionGuard(SetEvictionGuard { active: true }),
    };
    let origin = Origin { node: u64::MAX, peer: "[::1]:65535".into(), unix_ms: u64::MAX };
    Command { origin, change }
}

/// The request as a peer reads it from a frame.
fn sent(request: &Request) -> Request {
    let body = message::encode_request(request).unwrap();
    let mut bytes = Vec::new();
    Frame { kind: Kind::Request, number: u64::MAX, body }.write_to(&mut bytes).unwrap();
    assert!(bytes.len() <= PEER_FRAME_BYTES_MAX + 4);
    message::decode_request(&Frame::parse(&bytes[4..]).unwrap().body).unwrap()
}

/// The entry as the log gives it after a restart.
fn stored(entry: &Entry) -> Entry {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let (files, runtime) = (Arc::new(SystemFiles), Arc::new(SystemRuntime));
        Directory::open(dir.path(), 1, files, runtime, LogOptions::default()).unwrap()
    };
    let opened = open();
    let (done, durable) = mpsc::channel();
    opened.log.append(vec![entry.clone()], Box::new(move |result| done.send(result).unwrap()));
    durable.recv().unwrap().unwrap();
    drop(opened);
    let read = open().log.read(ID.index..ID.index + 1, 1).unwrap();
    read.into_iter().next().unwrap()
}

/// The state as a node has it that installs the snapshot.
fn installed(table: &RouteInfo) -> RouteInfo {
    let mut loader = Loader::new();
    for chunk in table.chunks() {
        let chunk = Bytes::from(chunk.unwrap());
        let Request::SnapshotChunks { chunks, .. } =
            sent(&Request::SnapshotChunks { first: 0, chunks: vec![chunk] })
        else {
            panic!("another request")
        };
        chunks.iter().for_each(|chunk| loader.chunk(chunk).unwrap());
    }
    loader.finish().unwrap()
}

fn goes_all_the_way(command: Command) {
    let forwarded = Request::Propose { command: Box::new(command), time_left_ms: u64::MAX };
    let Request::Propose { command, .. } = sent(&forwarded) else { panic!("another request") };
    let payload = Payload::Commands(encode(&[*command]).unwrap());
    let entry = stored(&Entry { id: ID, payload });
    let append =
        Append { vote: VOTE, previous: None, entries: vec![entry.clone().into()], committed: Some(ID) };
    let Request::Append(append) = sent(&Request::Append(append)) else { panic!("another request") };
    let mut received = conversions::raft_append(append).unwrap().entries;
    let entry = conversions::entry(received.remove(0)).unwrap();
    let Payload::Commands(bytes) = entry.payload else { panic!("another payload") };
    let commands: Vec<Command> = format::decode("log entry", &bytes).unwrap();
    let mut table = RouteInfo::default();
    let outcomes = table.apply_entry(ID, &commands).outcomes;
    assert!(!matches!(outcomes[..], [Outcome::SingleTopic | Outcome::Conflict { .. }]), "not carried out");
    assert_eq!(installed(&table).state_hash().total, table.state_hash().total);
}

fn content() -> impl Strategy<Value = Content> {
    let character = prop::sample::select(vec!['a', '"', '\0', 'é', '話', '🦀']);
    let number = prop::sample::select(vec![0, 1, -1, 1 << 20, i32::MIN, i32::MAX]);
    (character, prop::sample::select(vec![0, 1, 100, 1_000]), number)
        .prop_map(|(character, name_characters, number)| Content { character, name_characters, number })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_command_goes_all_the_way(
        large in prop::sample::select(ALL.to_vec()),
        bytes in prop::sample::select(vec![0, 4 << 10, ALONE_BYTES, 1 << 20]),
        content in content(),
    ) {
        goes_all_the_way(command(large, bytes, content));
    }
}

/// The largest commands that are taken: of long texts, of many names, and of many small numbers.
#[test]
fn the_largest_commands_go_all_the_way() {
    let content = Content { character: 'a', name_characters: 100, number: 1 };
    for (large, bytes) in [
        (Large::KvValue, COMMAND_BYTES_MAX - 100),
        (Large::Topics, COMMAND_BYTES_MAX * 9 / 10),
        (Large::StaticQueues, COMMAND_BYTES_MAX * 99 / 100),
    ] {
        let command = command(large, bytes, content);
        let encoded = format::encode("command", &command).unwrap().len();
        assert!((COMMAND_BYTES_MAX * 9 / 10..=COMMAND_BYTES_MAX).contains(&encoded), "{large:?}: {encoded}");
        goes_all_the_way(command);
    }
}

#[test]
fn an_entry_that_is_too_large_is_refused() {
    let content = Content { character: 'a', name_characters: 0, number: 0 };
    let refused = encode(&[command(Large::KvValue, ENTRY_BYTES_MAX, content)]).unwrap_err().to_string();
    assert!(refused.starts_with("an entry of 1 commands has"), "{refused}");
}
