//! Any bytes as the files of a log and as a marker: an open log that keeps its promises, or an error that changed
//! nothing.

use super::record::{ALIGN, HEADER_BYTES, u64_at};
use super::segment::{self, SEGMENT_HEADER_BYTES};
use super::{Entry, FileLog, Log, LogOptions, LogState, Payload, WriterMode};
use crate::directory::{Directory, OpenError, Opened};
use crate::files::{Files, MemoryFiles};
use crate::log_place::LogPlace;
use crate::marker::{MARKER_FILE, Marker};
use crate::runtime::Runtime;
use crate::{LogId, Vote};
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Makes all checksums right, so that what they guard is looked at.
const SEAL: u8 = 1;
/// The bytes are those of more segments.
const SEGMENTS: u8 = 6;
/// The marker says that all of the first segment is synced.
const SYNCED: u8 = 8;

const DATA: &str = "/data";
const DIRECTORY_ID: u128 = 1;

/// Gives the same always: the salt of each segment is 0, and the directory's id is [`DIRECTORY_ID`].
#[derive(Debug)]
struct Fixed(Mutex<u64>);

impl Runtime for Fixed {
    fn unix_ms(&self) -> u64 {
        0
    }

    fn random_u64(&self) -> u64 {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *calls += 1;
        u64::from(*calls == 2)
    }
}

/// The bytes as the files of a log.
pub fn log(bytes: &[u8]) {
    let Some((&how, content)) = bytes.split_first() else { return };
    let count = usize::from(how & SEGMENTS) / 2 + 1;
    let files = MemoryFiles::new();
    let numbers = 1..=count as u64;
    for (number, piece) in numbers.zip(content.chunks(content.len().div_ceil(count).max(1))) {
        let mut piece = piece.to_vec();
        if how & SEAL != 0 {
            seal_segment(&mut piece, number);
        }
        files.put(&segment_path(number), piece);
    }
    let synced = if how & SYNCED != 0 {
        LogPlace { segment: 1, offset: content.len() as u64 }
    } else {
        LogPlace::default()
    };
    let marker = Marker { last_segment: count as u64, synced, ..new_marker() };
    if let Ok(bytes) = marker.encode() {
        files.put(&Path::new(DATA).join(MARKER_FILE), bytes);
    }
    check(&files);
}

/// The bytes as the marker beside a log.
pub fn marker(bytes: &[u8]) {
    let Some((&how, content)) = bytes.split_first() else { return };
    let mut content = content.to_vec();
    if how & SEAL != 0 {
        content.splice(0..0, *b"rnsmark\n\x01\0\0\0");
        content.extend_from_slice(&xxh3_64(&content).to_le_bytes());
    }
    if let Ok(marker) = Marker::decode(&content) {
        assert_eq!(marker.encode().map(|bytes| Marker::decode(&bytes)).ok(), Some(Ok(marker)));
    }
    let files = some_log().copy();
    files.put(&Path::new(DATA).join(MARKER_FILE), content);
    check(&files);
}

fn new_marker() -> Marker {
    Marker {
        node_id: 1,
        directory_id: DIRECTORY_ID,
        cluster_id: None,
        first_segment: 1,
        last_segment: 1,
        synced: LogPlace::default(),
        snapshot: None,
        truncated_tail: None,
    }
}

fn segment_path(number: u64) -> PathBuf {
    Path::new(DATA).join("log").join(segment::name(number))
}

/// A segment of anything, with the right owner, number and checksums.
fn seal_segment(bytes: &mut [u8], number: u64) {
    let Some((header, mut rest)) = bytes.split_first_chunk_mut::<{ SEGMENT_HEADER_BYTES as usize }>() else {
        return;
    };
    header[..16].copy_from_slice(b"rnslog\r\n\x01\0\0\0\0\0\0\0");
    header[16..24].copy_from_slice(&number.to_le_bytes());
    header[32..48].copy_from_slice(&DIRECTORY_ID.to_le_bytes());
    let checksum = xxh3_64(&header[..56]);
    header[56..].copy_from_slice(&checksum.to_le_bytes());
    let mut seed = u64_at(header, 24).wrapping_add(SEGMENT_HEADER_BYTES);
    while let Some((header, payload)) = rest.split_first_chunk_mut::<HEADER_BYTES>() {
        // Zeros are where the records end.
        if header.iter().all(|&byte| byte == 0) {
            return;
        }
        let length = usize::try_from(u64_at(header, 8)).unwrap_or(usize::MAX);
        let padded = length.checked_next_multiple_of(ALIGN).unwrap_or(usize::MAX);
        let payload = if padded <= payload.len() {
            let (payload, after) = payload.split_at_mut(padded);
            payload[length..].fill(0);
            rest = after;
            &payload[..length]
        } else {
            rest = &mut [];
            &[]
        };
        header[..4].copy_from_slice(b"rnR1");
        header[48..56].copy_from_slice(&xxh3_64_with_seed(payload, seed).to_le_bytes());
        let checksum = xxh3_64_with_seed(&header[..56], seed);
        header[56..].copy_from_slice(&checksum.to_le_bytes());
        seed = seed.wrapping_add(HEADER_BYTES.saturating_add(padded) as u64);
    }
}

fn open(files: &MemoryFiles) -> Result<Opened, OpenError> {
    let options = LogOptions { segment_bytes: 1024, cache_bytes: 100, writer: WriterMode::Inline };
    Directory::open(Path::new(DATA), 1, Arc::new(files.clone()), Arc::new(Fixed(Mutex::default())), options)
}

/// All that a directory holds.
fn contents(files: &MemoryFiles) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let dir = Path::new(DATA).join("log");
    let names = files.list(&dir).unwrap_or_default();
    let paths = names.iter().map(|name| dir.join(name)).chain([Path::new(DATA).join(MARKER_FILE)]);
    paths.map(|path| (path.clone(), files.bytes(&path))).collect()
}

fn check(files: &MemoryFiles) {
    assert!(files.create_dir(&Path::new(DATA).join("log")).is_ok());
    let before = contents(files);
    match open(files) {
        Ok(opened) => {
            let state = opened.log.state();
            check_entries(&opened.log);
            check_writes(&opened.log, state);
            let written = opened.log.state();
            drop(opened);
            match open(files) {
                Ok(again) => {
                    assert_eq!(again.log.state(), written);
                    check_entries(&again.log);
                }
                Err(e) => unreachable!("open, written to, closed, and then refused: {e}"),
            }
        }
        Err(OpenError::Damaged { .. } | OpenError::Refused { .. }) => {
            assert_eq!(contents(files), before, "refused and changed");
        }
        Err(e) => unreachable!("the disk did not fail: {e}"),
    }
}

/// The log holds all that it says.
fn check_entries(log: &FileLog) {
    let LogState { purged, last, .. } = log.state();
    let first = purged.map_or(0, |id| id.index.saturating_add(1));
    let Some(last) = last.filter(|last| last.index >= first) else { return };
    let Some(next) = last.index.checked_add(1) else { return };
    match log.read(first..next, usize::MAX) {
        Ok(entries) => {
            let mut indexes = entries.iter().map(|entry| entry.id.index);
            assert!(indexes.by_ref().eq(first..next), "entries {first} to {last}: {entries:?}");
            assert_eq!(entries.last().map(|entry| entry.id), Some(last));
        }
        Err(e) => unreachable!("entries {first} to {last} are not read: {e}"),
    }
}

/// A log that opened goes on.
fn check_writes(log: &FileLog, LogState { last, .. }: LogState) {
    let results = Arc::new(Mutex::new(Vec::new()));
    let done = || -> super::Done {
        let results = Arc::clone(&results);
        Box::new(move |result| {
            results.lock().unwrap_or_else(PoisonError::into_inner).push(result.map_err(|e| e.to_string()))
        })
    };
    log.save_vote(Vote { term: 9, node: 1, committed: false }, done());
    let next = last.map_or(0, |last| last.index.saturating_add(1));
    if next < u64::MAX - 4 {
        let entry = |index| some_entry(last.map_or(1, |last| last.term), index);
        log.append((next..next + 3).map(entry).collect(), done());
        check_entries(log);
        log.truncate_after(Some(entry(next + 1).id), done());
        check_entries(log);
        log.purge(entry(next).id, done());
        check_entries(log);
    }
    let results = results.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

/// A log of a few segments with records of each kind, closed.
fn some_log() -> MemoryFiles {
    let files = MemoryFiles::new();
    let Ok(Opened { log, .. }) = open(&files) else { return files };
    let ignore = || -> super::Done { Box::new(drop) };
    log.save_vote(Vote { term: 1, node: 1, committed: true }, ignore());
    for index in 0_u64..8 {
        log.save_committed(index.checked_sub(1).map(|index| LogId { term: 1, index }));
        log.append(vec![some_entry(1, index)], ignore());
    }
    log.truncate_after(Some(LogId { term: 1, index: 6 }), ignore());
    log.append(vec![some_entry(2, 7)], ignore());
    log.purge(LogId { term: 1, index: 0 }, ignore());
    files
}

fn some_entry(term: u64, index: u64) -> Entry {
    let payload = match index % 4 {
        0 => Payload::Blank,
        1 => Payload::Membership(Bytes::from_static(b"members")),
        _ => Payload::Commands(Bytes::from(vec![7; 300])),
    };
    Entry { id: LogId { term, index }, payload }
}

#[cfg(test)]
mod tests;
