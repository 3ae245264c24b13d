//! What callers of the log and its writer share, behind one lock.

use super::log_index::LogIndex;
use super::segment::{EntryPlace, Segment};
use super::writer::Operation;
use super::{Done, Entry};
use crate::LogId;
use crate::files::File;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread::ThreadId;
use tokio::time::Instant;

/// The log as callers see it, and the queue to the writer. Locked for moments only, never while the disk works.
pub(crate) struct SharedLogState {
    pub(crate) log_index: LogIndex,
    /// File and salt of each segment.
    pub(crate) files: BTreeMap<u64, (Arc<dyn File>, u64)>,
    pub(crate) queue: VecDeque<Request>,
    /// When the requests that the writer has taken were made.
    pub(crate) taken: VecDeque<Instant>,
    /// Number of the last call that wrote.
    pub(crate) sequence: u64,
    pub(crate) closing: bool,
    /// Why nothing can be written any more.
    pub(crate) failed: Option<(io::ErrorKind, String)>,
    pub(crate) writer_thread: Option<ThreadId>,
}

pub(crate) struct Request {
    pub(crate) sequence: u64,
    pub(crate) operation: Operation,
    pub(crate) done: Done,
    pub(crate) since: Instant,
}

/// An entry that a caller reads: itself, or where it lies.
pub(crate) enum Found {
    Cached(Entry),
    OnDisk(EntryPlace),
}

impl Found {
    /// The entry itself; reads the disk if need be.
    pub(crate) fn read(self, dir: &Path) -> io::Result<Entry> {
        match self {
            Self::Cached(entry) => Ok(entry),
            Self::OnDisk(place) => place.read(dir),
        }
    }

    /// The entry itself, if no disk is needed for it.
    pub(crate) fn cached(self) -> Option<Entry> {
        match self {
            Self::Cached(entry) => Some(entry),
            Self::OnDisk(_) => None,
        }
    }
}

impl SharedLogState {
    pub(crate) fn new(log_index: LogIndex) -> Self {
        Self {
            log_index,
            files: BTreeMap::new(),
            queue: VecDeque::new(),
            taken: VecDeque::new(),
            sequence: 0,
            closing: false,
            failed: None,
            writer_thread: None,
        }
    }

    pub(crate) fn open_files(&mut self, opened: Vec<Segment>) {
        for segment in opened {
            self.files.insert(segment.number, (segment.file, segment.salt));
        }
    }

    pub(crate) fn failure(&self) -> Option<io::Error> {
        let (kind, reason) = self.failed.as_ref()?;
        Some(io::Error::new(*kind, format!("the log cannot be written any more: {reason}")))
    }

    /// When the call of the oldest write that is not yet durable was made.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.taken.front().copied().or_else(|| Some(self.queue.front()?.since))
    }

    /// All that is waiting, for the writer.
    pub(crate) fn take(&mut self) -> Batch {
        let requests: Vec<Request> = self.queue.drain(..).collect();
        self.taken = requests.iter().map(|request| request.since).collect();
        Batch { requests, committed: self.log_index.ends.committed, failure: self.failure() }
    }

    /// The entries of a range, in memory or where they lie: a state that later calls do not change.
    pub(crate) fn find(&self, range: Range<u64>, max_bytes: usize) -> io::Result<Vec<Found>> {
        let present = self.log_index.first_index()..self.log_index.next_index();
        if range.is_empty() {
            return Ok(Vec::new());
        }
        if range.start < present.start || range.end > present.end {
            let what = format!("entries {range:?} were asked for, the log holds {present:?}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let mut found = Vec::new();
        let mut bytes = 0_usize;
        for index in range {
            let missing = || io::Error::other(format!("entry {index} is neither in memory nor on disk"));
            let (slot, cached) = self.log_index.get(index).ok_or_else(missing)?;
            bytes = bytes.saturating_add(slot.payload_bytes as usize);
            if bytes > max_bytes && !found.is_empty() {
                break;
            }
            if let Some(entry) = cached {
                found.push(Found::Cached(entry.clone()));
                continue;
            }
            let place = slot.place.ok_or_else(missing)?;
            let (file, salt) = self.files.get(&place.segment).ok_or_else(missing)?;
            let id = LogId { term: slot.term, index };
            let (file, salt, length) = (Arc::clone(file), *salt, slot.record_bytes());
            found.push(Found::OnDisk(EntryPlace { id, place, length, file, salt }));
        }
        Ok(found)
    }
}

/// The requests that the writer carries out with one sync.
pub(crate) struct Batch {
    pub(crate) requests: Vec<Request>,
    /// The last commit that the log knew when the writer took them.
    pub(crate) committed: Option<LogId>,
    pub(crate) failure: Option<io::Error>,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }
}
