//! The history is bounded in bytes, whatever names come, and is the same at each node.

use super::world::{Reg, World, asked, command};
use crate::limits::{HISTORY_BYTES_MAX, HISTORY_NAME_BYTES_MAX, TOPIC_BYTES_MAX};
use crate::outcome::Event;
use crate::route_info::{AUDIT_RECORDS_MAX, AuditRecord, Loader, RouteInfo};
use crate::{LogId, Position};

/// Names that are in use nowhere else, so that the history alone keeps them.
fn register_and_unregister(w: &mut World, round: usize, topics: usize, name_bytes: usize) {
    let name = |topic: usize| format!("{round:04}{topic:04}{}", "n".repeat(name_bytes - 8));
    let names: Vec<String> = (0..topics).map(name).collect();
    let topics: Vec<(&str, i32)> = names.iter().map(|name| (&**name, 4)).collect();
    w.reg(Reg::new("c", "b", 0, "a").topics(&topics));
    w.unreg("c", "b", "a");
}

/// Bytes of all texts of the history, as a snapshot has them.
fn stored_bytes(table: &RouteInfo) -> usize {
    table.audit().map(|record| crate::format::encode("record", record).unwrap().len()).sum()
}

fn loaded(table: &RouteInfo) -> RouteInfo {
    let mut loader = Loader::new();
    table.chunks().for_each(|chunk| loader.chunk(&chunk.unwrap()).unwrap());
    loader.finish().unwrap()
}

#[test]
fn huge_names_do_not_fill_the_memory_through_the_history() {
    let mut w = World::default();
    for round in 0..3 {
        register_and_unregister(&mut w, round, 14, 1 << 20);
    }
    let records = w.table.audit().len();
    assert!(stored_bytes(&w.table) < records * (HISTORY_NAME_BYTES_MAX + 200), "{records} records");
    let shortened = w.table.audit().find_map(|record| match &record.event {
        Event::TopicNew { topic, .. } => Some(topic.clone()),
        _ => None,
    });
    let shortened = shortened.unwrap();
    assert!(shortened.starts_with("00000000nnn") && shortened.ends_with("n…"));
    assert_eq!(shortened.len(), HISTORY_NAME_BYTES_MAX);
}

#[test]
fn the_history_holds_no_more_bytes_than_its_limit() {
    let mut w = World::default();
    let per_round = 400;
    for round in 0..12 {
        register_and_unregister(&mut w, round, per_round, TOPIC_BYTES_MAX);
    }
    assert!(stored_bytes(&w.table) < HISTORY_BYTES_MAX);
    let bytes = w.table.history_bytes();
    assert!(bytes <= HISTORY_BYTES_MAX && bytes + 2 * TOPIC_BYTES_MAX > HISTORY_BYTES_MAX, "{bytes}");
    // Names as they are allowed stay whole, and the newest records stay.
    assert!(w.table.audit().all(|record| match &record.event {
        Event::TopicNew { topic, .. } | Event::TopicGone { topic, .. } => topic.len() == TOPIC_BYTES_MAX,
        _ => true,
    }));
    assert_eq!(w.table.audit().next_back().unwrap().at.index, w.next);
    assert_eq!(loaded(&w.table).state_hash(), w.table.state_hash());
}

/// A node that loads the snapshot of an earlier version has the history of one that has applied the same log.
#[test]
fn a_history_that_was_stored_without_limits_is_loaded_and_bounded() {
    let mut w = World::default();
    register_and_unregister(&mut w, 0, 2, 1 << 20);
    let mut stored = w.table.clone();
    let record = |number: u32, topic: String| AuditRecord {
        at: Position { index: 1, number },
        origin: command(asked("c", "b", "a")).origin,
        event: Event::TopicGone { topic: topic.into(), broker: None },
    };
    stored.audit.clear();
    stored.audit_bytes = 0;
    for number in 0..AUDIT_RECORDS_MAX as u32 {
        stored.load_record(record(number, format!("{number:05}{}", "n".repeat(5_000))));
    }
    assert!(stored_bytes(&stored) > 2 * HISTORY_BYTES_MAX);

    let mut applied = RouteInfo { audit: imbl::Vector::new(), audit_bytes: 0, ..stored.clone() };
    for old in stored.audit() {
        applied.record(old.at, &old.origin, std::slice::from_ref(&old.event));
    }
    let mut loaded = loaded(&stored);
    assert!(loaded.history_bytes() <= HISTORY_BYTES_MAX);
    assert_eq!(loaded.state_hash(), applied.state_hash());
    for table in [&mut loaded, &mut applied] {
        table.apply_entry(
            LogId { term: 0, index: w.next + 1 },
            &[command(Reg::new("c", "b", 0, "a").change())],
        );
        table.check_invariants().unwrap();
    }
    assert_eq!(loaded.state_hash(), applied.state_hash());
}
