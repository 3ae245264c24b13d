//! A log in memory: it outlives the node that uses it, so a test can stop a node and start it again.

use crate::log::{Done, Entry, Log, LogState, Payload};
use crate::{LogId, Vote};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A log in memory, durable at once unless it is held up.
#[derive(Default)]
pub struct MemoryLog {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: BTreeMap<u64, Entry>,
    purged: Option<LogId>,
    committed: Option<LogId>,
    vote: Option<Vote>,
    /// While the disk hangs: callbacks that wait, and since when.
    waiting: Option<(tokio::time::Instant, Vec<Done>)>,
    reads_fail: bool,
}

impl MemoryLog {
    /// From now on nothing becomes durable (`true`), or all of it does (`false`).
    pub fn hang(&self, hang: bool) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if hang {
            inner.waiting.get_or_insert_with(|| (tokio::time::Instant::now(), Vec::new()));
        } else if let Some((_, waiting)) = inner.waiting.take() {
            drop(inner);
            waiting.into_iter().for_each(|done| done(Ok(())));
        }
    }

    /// Reads give errors from now on.
    pub fn fail_reads(&self) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).reads_fail = true;
    }

    fn done(&self, mut inner: std::sync::MutexGuard<'_, Inner>, done: Done) {
        if let Some((_, waiting)) = &mut inner.waiting {
            waiting.push(done);
            return;
        }
        drop(inner);
        done(Ok(()));
    }
}

fn bytes(entry: &Entry) -> usize {
    match &entry.payload {
        Payload::Blank => 0,
        Payload::Commands(bytes) | Payload::Membership(bytes) => bytes.len(),
    }
}

impl Log for MemoryLog {
    fn state(&self) -> LogState {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        LogState {
            purged: inner.purged,
            last: inner.entries.last_key_value().map(|(_, e)| e.id).or(inner.purged),
            committed: inner.committed,
            vote: inner.vote,
            bytes: inner.entries.values().map(|e| bytes(e) as u64).sum(),
        }
    }

    fn append(&self, entries: Vec<Entry>, done: Done) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in entries {
            let last = inner.entries.last_key_value().map(|(i, _)| *i).or(inner.purged.map(|id| id.index));
            // openraft's suite begins an empty log anywhere.
            assert!(last.is_none_or(|i| entry.id.index == i + 1), "a hole in the log before {}", entry.id);
            inner.entries.insert(entry.id.index, entry);
        }
        self.done(inner, done);
    }

    fn save_vote(&self, vote: Vote, done: Done) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.vote = Some(vote);
        self.done(inner, done);
    }

    fn save_committed(&self, committed: Option<LogId>) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).committed = committed;
    }

    fn truncate_after(&self, last: Option<LogId>, done: Done) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.entries.split_off(&last.map_or(0, |id| id.index + 1));
        self.done(inner, done);
    }

    fn purge(&self, upto: LogId, done: Done) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.entries = inner.entries.split_off(&(upto.index + 1));
        inner.purged = inner.purged.max(Some(upto));
        self.done(inner, done);
    }

    fn read(&self, range: Range<u64>, max_bytes: usize) -> io::Result<Vec<Entry>> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.reads_fail {
            return Err(io::Error::other("reads fail"));
        }
        let mut entries = Vec::new();
        let mut total = 0;
        for index in range {
            let entry = inner
                .entries
                .get(&index)
                .ok_or_else(|| io::Error::other(format!("entry {index} is not in the log")))?;
            total += bytes(entry);
            if !entries.is_empty() && total > max_bytes {
                break;
            }
            entries.push(entry.clone());
        }
        Ok(entries)
    }

    fn oldest_wait(&self) -> Option<Duration> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, waiting) = inner.waiting.as_ref()?;
        (!waiting.is_empty()).then(|| since.elapsed())
    }

    fn close(&self) {}
}
