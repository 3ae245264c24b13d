//! The log through its trait: order, reopening after each kind of operation, reads beside truncation and purge.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bytes::Bytes;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use storage::directory::{Directory, OpenError, Opened};
use storage::files::{Fault, Files, MemoryFiles, SystemFiles};
use storage::log::{Entry, Log, LogOptions, Payload, WriterMode};
use storage::runtime::SystemRuntime;
use storage::{LogId, Vote};

fn options(writer: WriterMode) -> LogOptions {
    LogOptions { segment_bytes: 2048, cache_bytes: 1024, writer }
}

fn open_in(files: &MemoryFiles, writer: WriterMode) -> Result<Opened, OpenError> {
    Directory::open(Path::new("/data"), 1, Arc::new(files.clone()), Arc::new(SystemRuntime), options(writer))
}

fn open(files: &MemoryFiles) -> Opened {
    open_in(files, WriterMode::Inline).unwrap()
}

fn open_on_disk(path: &Path) -> Result<Opened, OpenError> {
    Directory::open(path, 1, Arc::new(SystemFiles), Arc::new(SystemRuntime), options(WriterMode::Thread))
}

fn id(term: u64, index: u64) -> LogId {
    LogId { term, index }
}

fn entry(term: u64, index: u64) -> Entry {
    let text = format!("entry {index} of term {term} ").repeat(1 + index as usize % 7);
    let payload = match index % 5 {
        0 => Payload::Blank,
        1 => Payload::Membership(Bytes::from(text)),
        _ => Payload::Commands(Bytes::from(text)),
    };
    Entry { id: id(term, index), payload }
}

fn entries(term: u64, range: std::ops::Range<u64>) -> Vec<Entry> {
    range.map(|index| entry(term, index)).collect()
}

/// Calls, and waits until it is durable.
fn wait(call: impl FnOnce(storage::log::Done)) -> std::io::Result<()> {
    let (sender, receiver) = mpsc::channel();
    call(Box::new(move |result| sender.send(result).unwrap()));
    receiver.recv_timeout(Duration::from_secs(20)).unwrap()
}

fn append(log: &dyn Log, entries: Vec<Entry>) {
    wait(|done| log.append(entries, done)).unwrap();
}

#[test]
fn a_new_log_is_empty() {
    let opened = open(&MemoryFiles::new());
    assert!(opened.created && opened.truncated_tail.is_none());
    assert_eq!(opened.log.state(), storage::log::LogState::default());
    assert_eq!(opened.log.read(0..0, 10).unwrap(), []);
    opened.log.read(0..1, 10).unwrap_err();
}

#[test]
fn everything_is_there_after_reopening_with_and_without_a_close() {
    type Step = (&'static str, fn(&dyn Log));
    let steps: [Step; 9] = [
        ("vote", |log| {
            wait(|done| log.save_vote(Vote { term: 3, node: 9, committed: false }, done)).unwrap()
        }),
        ("append", |log| append(log, entries(3, 0..40))),
        ("committed", |log| {
            log.save_committed(Some(id(3, 20)));
            append(log, entries(3, 40..41));
        }),
        ("truncate", |log| wait(|done| log.truncate_after(Some(id(3, 30)), done)).unwrap()),
        ("append after truncate", |log| append(log, entries(4, 31..60))),
        ("purge", |log| wait(|done| log.purge(id(4, 35), done)).unwrap()),
        ("vote again", |log| {
            wait(|done| log.save_vote(Vote { term: 5, node: 2, committed: true }, done)).unwrap()
        }),
        ("purge past the end", |log| wait(|done| log.purge(id(5, 99), done)).unwrap()),
        ("append after that", |log| append(log, entries(6, 100..140))),
    ];
    let files = MemoryFiles::new();
    for (name, step) in steps {
        for close in [true, false] {
            let files = if close { files.copy() } else { files.clone() };
            let opened = open(&files);
            step(&*opened.log);
            let before = opened.log.state();
            let first = before.purged.map_or(0, |id| id.index + 1);
            let range = first..before.last.map_or(0, |id| id.index + 1);
            let read = opened.log.read(range.clone(), usize::MAX).unwrap();
            if close {
                drop(opened);
            } else {
                files.kill();
                std::mem::forget(opened);
            }
            let again = open(&files);
            assert!(!again.created && again.truncated_tail.is_none(), "{name}");
            assert_eq!(again.log.state(), before, "{name}, close {close}");
            assert_eq!(again.log.read(range, usize::MAX).unwrap(), read, "{name}, close {close}");
        }
    }
}

#[test]
fn the_ends_are_those_that_raft_expects() {
    let log = open(&MemoryFiles::new()).log;
    append(&*log, entries(2, 5..10));
    assert_eq!(log.state().last, Some(id(2, 9)));
    wait(|done| log.truncate_after(Some(id(2, 50)), done)).unwrap();
    assert_eq!(log.state().last, Some(id(2, 9)), "a truncation past the end changes nothing");
    wait(|done| log.purge(id(2, 6), done)).unwrap();
    wait(|done| log.purge(id(2, 5), done)).unwrap();
    assert_eq!(log.state().purged, Some(id(2, 6)), "a purge never goes back");
    wait(|done| log.truncate_after(None, done)).unwrap();
    assert_eq!((log.state().purged, log.state().last), (Some(id(2, 6)), Some(id(2, 6))));
    assert_eq!(log.state().bytes, 0);
    append(&*log, entries(3, 7..9));
    wait(|done| log.purge(id(4, 20), done)).unwrap();
    assert_eq!((log.state().purged, log.state().last), (Some(id(4, 20)), Some(id(4, 20))));
    append(&*log, entries(4, 21..22));
    assert_eq!(log.read(21..22, 0).unwrap(), entries(4, 21..22));
}

#[test]
fn what_would_leave_a_hole_is_refused_in_its_turn_and_changes_nothing() {
    let log = open(&MemoryFiles::new()).log;
    append(&*log, entries(1, 0..5));
    let before = log.state();
    wait(|done| log.append(entries(1, 6..7), done)).unwrap_err();
    wait(|done| log.append(entries(1, 4..6), done)).unwrap_err();
    wait(|done| log.append(vec![entry(1, 5), entry(1, 7)], done)).unwrap_err();
    wait(|done| log.truncate_after(Some(id(9, 3)), done)).unwrap_err();
    wait(|done| log.purge(id(9, 3), done)).unwrap_err();
    assert_eq!(log.state(), before);
    log.read(3..6, 100).unwrap_err();
    append(&*log, entries(1, 5..6));
}

#[test]
fn a_read_is_limited_by_bytes_but_never_empty() {
    let log = open(&MemoryFiles::new()).log;
    append(&*log, entries(1, 0..30));
    let whole = log.read(2..30, usize::MAX).unwrap();
    assert_eq!(whole, entries(1, 2..30));
    let first = match &whole[0].payload {
        Payload::Commands(bytes) => bytes.len(),
        _ => panic!(),
    };
    assert_eq!(log.read(2..30, 0).unwrap().len(), 1);
    assert_eq!(log.read(2..30, first).unwrap().len(), 1);
    assert!(log.read(2..30, first + 400).unwrap().len() > 1);
}

#[test]
fn callbacks_come_in_order_and_entries_are_readable_before() {
    let dir = tempfile::tempdir().unwrap();
    let log = open_on_disk(dir.path()).unwrap().log;
    let called = Arc::new(Mutex::new(Vec::new()));
    let done = |number: u64| -> storage::log::Done {
        let called = Arc::clone(&called);
        Box::new(move |result| {
            result.unwrap();
            called.lock().unwrap().push(number);
        })
    };
    for index in 0..500 {
        log.append(entries(1, index..index + 1), done(index * 2));
        assert_eq!(log.read(index..index + 1, 0).unwrap(), entries(1, index..index + 1));
        log.save_vote(Vote { term: index, node: 1, committed: false }, done(index * 2 + 1));
    }
    log.close();
    assert_eq!(*called.lock().unwrap(), (0..1000).collect::<Vec<_>>());
    assert_eq!(log.oldest_wait(), None);
    wait(|done| log.append(entries(1, 500..501), done)).unwrap_err();
}

#[test]
fn readers_beside_truncate_and_purge_see_whole_states() {
    let dir = tempfile::tempdir().unwrap();
    let log = open_on_disk(dir.path()).unwrap().log;
    append(&*log, entries(1, 0..100));
    let rounds = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while rounds.load(Ordering::Relaxed) < 60 {
                    let state = log.state();
                    let first = state.purged.map_or(0, |id| id.index + 1);
                    let Ok(read) = log.read(first..state.last.unwrap().index + 1, usize::MAX) else {
                        continue;
                    };
                    let terms: Vec<u64> = read.iter().map(|entry| entry.id.term).collect();
                    assert!(terms.is_sorted());
                    for entry in read {
                        assert_eq!(entry, self::entry(entry.id.term, entry.id.index));
                    }
                }
            });
        }
        for round in 0..60 {
            let last = log.state().last.unwrap();
            let keep = log.read(last.index - 10..last.index - 9, 0).unwrap().remove(0).id;
            log.truncate_after(Some(keep), Box::new(|result| result.unwrap()));
            append(&*log, entries(2 + round, keep.index + 1..keep.index + 41));
            let upto = log.read(keep.index - 20..keep.index - 19, 0).unwrap().remove(0).id;
            wait(|done| log.purge(upto, done)).unwrap();
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    });
}

#[test]
fn an_entry_of_16_mib_and_more() {
    let files = MemoryFiles::new();
    let big = |index: u64| Entry {
        id: id(1, index),
        payload: Payload::Commands(Bytes::from(vec![index as u8 + 1; (16 << 20) + 13])),
    };
    let log = open(&files).log;
    append(&*log, vec![entry(1, 0), big(1), entry(1, 2)]);
    append(&*log, vec![big(3)]);
    drop(log);
    let log = open(&files).log;
    assert_eq!(log.read(0..4, usize::MAX).unwrap(), vec![entry(1, 0), big(1), entry(1, 2), big(3)]);
    append(&*log, vec![entry(1, 4)]);
    assert_eq!(log.read(1..5, 17 << 20).unwrap().len(), 2);
}

#[test]
fn purged_segments_are_unlinked_and_readers_go_on() {
    let files = MemoryFiles::new();
    let opened = open(&files);
    append(&*opened.log, entries(1, 0..200));
    let segments = |files: &MemoryFiles| {
        files.list(Path::new("/data/log")).unwrap().iter().filter(|name| name.ends_with(".log")).count()
    };
    let before = segments(&files);
    assert!(before > 5);
    wait(|done| opened.log.purge(id(1, 190), done)).unwrap();
    assert!(segments(&files) < 5, "{} of {before} left", segments(&files));
    assert_eq!(opened.log.read(191..200, usize::MAX).unwrap(), entries(1, 191..200));
    let marker = opened.directory.marker().get();
    assert!(marker.first_segment > 1 && marker.last_segment > marker.first_segment);
    drop(opened);
    assert_eq!(open(&files).log.read(191..200, usize::MAX).unwrap(), entries(1, 191..200));
}

#[test]
fn after_a_failed_write_or_sync_every_later_write_fails() {
    for ahead in 1..=2 {
        let files = MemoryFiles::new();
        let log = open(&files).log;
        append(&*log, entries(1, 0..3));
        files.fail_at(files.operations() + ahead, Fault::Error(std::io::ErrorKind::Other));
        wait(|done| log.append(entries(1, 3..4), done)).unwrap_err();
        wait(|done| log.append(entries(1, 4..5), done)).unwrap_err();
        wait(|done| log.save_vote(Vote::default(), done)).unwrap_err();
        assert_eq!(log.read(0..3, usize::MAX).unwrap(), entries(1, 0..3));
        log.close();
    }
}

#[test]
fn a_stepped_log_leaves_writes_waiting_and_times_them() {
    let files = MemoryFiles::new();
    let log = open_in(&files, WriterMode::Stepped).unwrap().log;
    assert_eq!(log.oldest_wait(), None);
    let (sender, receiver) = mpsc::channel();
    for index in 0..3 {
        let sender = sender.clone();
        log.append(entries(1, index..index + 1), Box::new(move |_| sender.send(index).unwrap()));
    }
    assert!(log.oldest_wait().is_some() && receiver.try_recv().is_err());
    assert_eq!(log.read(0..3, usize::MAX).unwrap(), entries(1, 0..3), "readable before it is written");
    assert_eq!(log.step(), 3);
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(log.oldest_wait(), None);
}

#[test]
fn a_second_process_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = open_on_disk(dir.path()).unwrap();
    let error = open_on_disk(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    drop(first);
    open_on_disk(dir.path()).unwrap();
}
