//! A data directory that is not whole, not this node's, or of another time is refused, untouched, with what to do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::LogId;
use storage::directory::{Directory, OpenError, Opened};
use storage::files::{Files, MemoryFiles};
use storage::log::{Entry, Log, LogOptions, Payload, WriterMode};
use storage::marker::{DIRECTORY_FORMAT, Marker};
use storage::runtime::SystemRuntime;

fn open_as(files: &MemoryFiles, node_id: u64) -> Result<Opened, OpenError> {
    let options = LogOptions { segment_bytes: 1024, cache_bytes: 100, writer: WriterMode::Inline };
    Directory::open(Path::new("/data"), node_id, Arc::new(files.clone()), Arc::new(SystemRuntime), options)
}

fn open(files: &MemoryFiles) -> Result<Opened, OpenError> {
    open_as(files, 1)
}

fn append(opened: &Opened, count: u64) {
    let first = opened.log.state().last.map_or(0, |id| id.index + 1);
    for index in first..first + count {
        let payload = Payload::Commands(Bytes::from(vec![7; 200]));
        let entry = Entry { id: LogId { term: 1, index }, payload };
        opened.log.append(vec![entry], Box::new(|result| result.unwrap()));
    }
}

/// A directory with a log of some segments.
fn directory() -> MemoryFiles {
    let files = MemoryFiles::new();
    append(&open(&files).unwrap(), 20);
    files
}

fn marker_path() -> PathBuf {
    "/data/marker".into()
}

fn segment(number: u64) -> PathBuf {
    format!("/data/log/{number:020}.log").into()
}

/// It is refused, and the reason says all of this.
fn refused(files: &MemoryFiles, words: &[&str]) {
    let names = (files.list(Path::new("/data")).unwrap(), files.list(Path::new("/data/log")).unwrap());
    let marker = files.bytes(&marker_path());
    let error = open(files).unwrap_err().to_string();
    for word in words {
        assert!(error.contains(word), "{word:?} is not in {error:?}");
    }
    assert!(!error.contains('\n'));
    let now = (files.list(Path::new("/data")).unwrap(), files.list(Path::new("/data/log")).unwrap());
    assert_eq!((now, files.bytes(&marker_path())), (names, marker));
}

#[test]
fn a_directory_keeps_its_identity() {
    let files = MemoryFiles::new();
    let opened = open(&files).unwrap();
    let id = opened.directory.id();
    assert!(opened.created);
    opened.directory.marker().set_cluster_id(5).unwrap();
    opened.directory.marker().set_snapshot(LogId { term: 1, index: 4 }).unwrap();
    opened.directory.marker().set_cluster_id(6).unwrap_err();
    drop(opened);
    let opened = open(&files).unwrap();
    let marker = opened.directory.marker().get();
    assert!(!opened.created);
    assert_eq!((marker.directory_id, marker.cluster_id), (id, Some(5)));
    assert_eq!(marker.snapshot, Some(LogId { term: 1, index: 4 }));
}

#[test]
fn a_missing_or_emptied_or_damaged_marker() {
    let files = directory();
    let whole = files.bytes(&marker_path()).unwrap();
    files.remove(&marker_path()).unwrap();
    refused(&files, &["/data", "no marker file", "members replace"]);
    files.put(&marker_path(), Vec::new());
    refused(&files, &["empty or damaged", "members replace"]);
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        files.put(&marker_path(), damaged);
        refused(&files, &["empty or damaged"]);
        files.put(&marker_path(), whole[..at].to_vec());
        refused(&files, &["empty or damaged"]);
    }
    files.put(&marker_path(), whole);
    open(&files).unwrap();
}

#[test]
fn a_marker_of_a_later_format() {
    let files = directory();
    let mut bytes = files.bytes(&marker_path()).unwrap();
    let body = bytes.len() - 8;
    bytes[8..12].copy_from_slice(&(DIRECTORY_FORMAT + 1).to_le_bytes());
    let checksum = xxhash_rust::xxh3::xxh3_64(&bytes[..body]);
    bytes[body..].copy_from_slice(&checksum.to_le_bytes());
    files.put(&marker_path(), bytes);
    refused(&files, &["format 2", "this version reads 1", "start the version"]);
}

#[test]
fn a_directory_of_another_node() {
    let files = directory();
    let error = open_as(&files, 2).unwrap_err().to_string();
    assert!(
        error.contains("belongs to node 1, and this is node 2") && error.contains("--node-id 1"),
        "{error}"
    );
    open(&files).unwrap();
}

#[test]
fn segments_that_are_missing() {
    let files = directory();
    let names = files.list(Path::new("/data/log")).unwrap();
    let last = names.len() as u64;
    for number in [1, 2, last - 1, last] {
        let files = files.copy();
        files.remove(&segment(number)).unwrap();
        let error = open(&files).unwrap_err().to_string();
        assert!(error.contains("docs/runbooks/"), "{error}");
    }
    for number in 1..=last {
        files.remove(&segment(number)).unwrap();
    }
    refused(&files, &["missing", "data-directory.md"]);
}

#[test]
fn segments_that_were_copied_back() {
    let files = directory();
    let old = files.copy();
    let opened = open(&files).unwrap();
    append(&opened, 20);
    opened.log.purge(LogId { term: 1, index: 30 }, Box::new(|result| result.unwrap()));
    drop(opened);

    // Segments that were purged are back.
    let back = files.copy();
    back.put(&segment(1), old.bytes(&segment(1)).unwrap());
    refused(&back, &["older than its marker", "segment 1"]);

    // An old marker beside a newer log.
    let back = files.copy();
    back.put(&marker_path(), old.bytes(&marker_path()).unwrap());
    refused(&back, &["newer than its marker"]);

    // An old log beside a newer marker.
    old.put(&marker_path(), files.bytes(&marker_path()).unwrap());
    refused(&old, &["marker"]);
}

#[test]
fn a_segment_of_another_directory() {
    let (files, other) = (directory(), directory());
    files.put(&segment(2), other.bytes(&segment(2)).unwrap());
    refused(&files, &["belongs to another data directory"]);
    files.put(&segment(2), files.bytes(&segment(1)).unwrap());
    refused(&files, &["segment 1 under another name"]);
}

#[test]
fn leftovers_of_an_interrupted_start_are_no_obstacle() {
    let files = MemoryFiles::new();
    files.create_dir(Path::new("/data")).unwrap();
    files.put(Path::new("/data/marker.new"), vec![1, 2, 3]);
    files.put(Path::new("/data/reserve"), vec![0; 100]);
    assert!(open(&files).unwrap().created);

    let files = directory();
    let last = files.list(Path::new("/data/log")).unwrap().len() as u64;
    files.put(&segment(last + 1), Vec::new());
    let opened = open(&files).unwrap();
    append(&opened, 20);
}

#[test]
fn a_marker_round_trips() {
    let marker = open(&directory()).unwrap().directory.marker().get();
    assert_eq!(Marker::decode(&marker.encode().unwrap()), Ok(marker));
}
