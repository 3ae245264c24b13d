//! Damage at every place of a log: refused with nothing changed, or truncated where no write was acknowledged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bytes::Bytes;
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::directory::{Directory, OpenError, Opened};
use storage::files::{Files, MemoryFiles};
use storage::log::{Entry, Log, LogOptions, Payload, WriterMode};
use storage::runtime::SystemRuntime;
use storage::{LogId, Vote};

const LAST: u64 = 40;

fn open(files: &MemoryFiles) -> Result<Opened, OpenError> {
    open_with(files, 1024)
}

fn open_with(files: &MemoryFiles, segment_bytes: u64) -> Result<Opened, OpenError> {
    let options = LogOptions { segment_bytes, cache_bytes: 100, writer: WriterMode::Inline };
    Directory::open(Path::new("/data"), 1, Arc::new(files.clone()), Arc::new(SystemRuntime), options)
}

fn entry(index: u64) -> Entry {
    let bytes = vec![index as u8 | 0x80; 40 + index as usize * 3];
    Entry { id: LogId { term: 1, index }, payload: Payload::Commands(Bytes::from(bytes)) }
}

/// A log of several segments, each entry synced by itself.
fn log(closed: bool) -> MemoryFiles {
    log_with(closed, 1024)
}

fn log_with(closed: bool, segment_bytes: u64) -> MemoryFiles {
    let files = MemoryFiles::new();
    let opened = open_with(&files, segment_bytes).unwrap();
    opened.log.save_vote(Vote { term: 1, node: 7, committed: true }, Box::new(|result| result.unwrap()));
    for index in 0..LAST {
        opened.log.append(vec![entry(index)], Box::new(|result| result.unwrap()));
    }
    if closed {
        drop(opened);
    } else {
        files.kill();
        drop(opened);
    }
    files.copy()
}

fn segments(files: &MemoryFiles) -> Vec<PathBuf> {
    let names = files.list(Path::new("/data/log")).unwrap();
    names.iter().filter(|name| name.ends_with(".log")).map(|name| Path::new("/data/log").join(name)).collect()
}

fn contents(files: &MemoryFiles) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths = segments(files);
    paths.push("/data/marker".into());
    paths.into_iter().map(|path| (path.clone(), files.bytes(&path).unwrap())).collect()
}

/// Opens a damaged log. Gives how many entries it has, or `None` if it is refused.
fn look(files: &MemoryFiles, what: &str) -> Option<u64> {
    let before = contents(files);
    match open(files) {
        Ok(opened) => {
            let state = opened.log.state();
            assert_eq!(state.vote, Some(Vote { term: 1, node: 7, committed: true }), "{what}");
            let count = state.last.unwrap().index + 1;
            let expected: Vec<Entry> = (0..count).map(entry).collect();
            assert_eq!(opened.log.read(0..count, usize::MAX).unwrap(), expected, "{what}");
            if count < LAST {
                assert!(
                    opened.truncated_tail.is_some() || what.contains("zeros"),
                    "silently shorter: {what}"
                );
            }
            Some(count)
        }
        Err(e) => {
            assert!(matches!(e, OpenError::Damaged { .. } | OpenError::Refused { .. }), "{what}: {e}");
            assert!(e.to_string().contains("docs/runbooks/"), "{e}");
            assert_eq!(contents(files), before, "{what}: changed though refused");
            None
        }
    }
}

/// Damages each place of each segment in three ways.
fn damage_everywhere(closed: bool, segment_bytes: u64) {
    let intact = log_with(closed, segment_bytes);
    assert_eq!(look(&intact.copy(), "intact"), Some(LAST));
    let (mut refused, mut shorter) = (0, 0);
    for path in segments(&intact) {
        let bytes = intact.bytes(&path).unwrap();
        for at in (0..bytes.len()).step_by(13) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            let mut zeroed = bytes.clone();
            let end = (at + 64).min(bytes.len());
            zeroed[at..end].fill(0);
            let ways = [("flip", flipped), ("zeros", zeroed), ("cut", bytes[..at].to_vec())];
            for (way, damaged) in ways {
                if damaged == bytes {
                    continue;
                }
                let files = intact.copy();
                files.put(&path, damaged);
                let what = format!("{way} at {at} of {}, closed {closed}", path.display());
                match look(&files, &what) {
                    None => refused += 1,
                    Some(count) => {
                        assert!(way != "cut", "{what}");
                        // Only the last group, before its "synced" record, may be taken for a torn tail.
                        assert!(count >= LAST - u64::from(!closed), "{count} entries left: {what}");
                        shorter += usize::from(count < LAST);
                    }
                }
            }
        }
    }
    assert!(refused > 100 && shorter <= 40, "{refused} refused, {shorter} shorter");
}

#[test]
fn damage_anywhere_in_a_log_whose_process_was_killed() {
    damage_everywhere(false, 1024);
}

#[test]
fn damage_anywhere_in_a_log_that_was_closed() {
    damage_everywhere(true, 1024);
}

/// Here only the records of one segment say what was synced; the marker knows less.
#[test]
fn damage_anywhere_in_a_segment_of_many_groups() {
    damage_everywhere(false, 12 << 10);
}

#[test]
fn a_torn_tail_is_copied_truncated_and_reported_until_it_is_forgotten() {
    let files = log(false);
    let path = segments(&files)
        .into_iter()
        .rev()
        .find(|path| files.bytes(path).unwrap()[64..].iter().any(|&b| b != 0));
    let path = path.unwrap();
    let mut bytes = files.bytes(&path).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap().next_multiple_of(8);
    bytes[end..end + 5].copy_from_slice(b"torn!");
    files.put(&path, bytes);

    let opened = open(&files).unwrap();
    let cut = opened.truncated_tail.clone().unwrap();
    assert_eq!((cut.place.offset, cut.bytes, cut.last), (end as u64, 5, Some(entry(LAST - 1).id)));
    assert_eq!(files.bytes(&Path::new("/data/log").join(&cut.copy)).unwrap(), b"torn!");
    opened.log.append(vec![entry(LAST)], Box::new(|result| result.unwrap()));
    drop(opened);

    let opened = open(&files).unwrap();
    assert_eq!(opened.truncated_tail.as_ref(), Some(&cut), "not reported to all yet");
    opened.directory.marker().forget_truncated_tail().unwrap();
    drop(opened);
    let opened = open(&files).unwrap();
    assert_eq!(opened.truncated_tail, None);
    assert_eq!(opened.log.read(LAST..LAST + 1, 0).unwrap(), [entry(LAST)]);
}

#[test]
fn a_damaged_entry_on_disk_is_not_read() {
    let files = log(true);
    let opened = open(&files).unwrap();
    let path = segments(&files).remove(0);
    let file = files.open(&path).unwrap();
    let at = files.bytes(&path).unwrap().windows(30).position(|bytes| bytes == [0x81; 30]).unwrap();
    file.write_at(&[0], at as u64 + 10).unwrap();
    let error = opened.log.read(1..2, 0).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    assert!(error.to_string().contains("entry 1-1") && error.to_string().contains("runbooks"), "{error}");
    opened.log.read(2..3, 0).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is written over it, a log gives what was in it, from the beginning, or is refused.
    #[test]
    fn any_damage(closed: bool, file: prop::sample::Index, at: prop::sample::Index, from: prop::sample::Index,
                  junk in prop::collection::vec(any::<u8>(), 0..400), copied in 0..600_usize) {
        let files = log(closed);
        let paths = segments(&files);
        let path = &paths[file.index(paths.len())];
        let mut bytes = files.bytes(path).unwrap();
        let source = bytes[from.index(bytes.len())..].iter().copied().take(copied);
        let new: Vec<u8> = junk.into_iter().chain(source).collect();
        let at = at.index(bytes.len());
        bytes.splice(at..(at + new.len()).min(bytes.len()), new);
        files.put(path, bytes);
        look(&files, "junk or zeros");
    }
}
