//! The index of the log, as of the last call: its ends, where each entry lies, and the newest entries themselves.
//!
//! Both the open log and recovery change it, by the same rules.

use super::Entry;
use super::record::{Checkpoint, entry_record_bytes, payload_parts};
use crate::LogId;
use crate::limits::LOG_PAYLOAD_BYTES_MAX;
use crate::log_place::LogPlace;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;

/// Where one entry lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    /// Number of the call that appended it: tells it from a later entry of the same index.
    pub(crate) sequence: u64,
    pub(crate) term: u64,
    pub(crate) payload_bytes: u32,
    /// Unknown until the writer has written it; then it is in `cache`.
    pub(crate) place: Option<LogPlace>,
}

impl Slot {
    /// Length of the record on disk.
    pub(crate) fn record_bytes(&self) -> usize {
        entry_record_bytes(self.payload_bytes as usize)
    }
}

/// The index of the log.
#[derive(Debug, Default)]
pub(crate) struct LogIndex {
    /// Ends and vote.
    pub(crate) ends: Checkpoint,
    /// One for each entry that the log holds: the last of them is `ends.last`.
    slots: VecDeque<Slot>,
    /// The newest of them in memory: the last of them is `ends.last`.
    cache: VecDeque<Entry>,
    cache_bytes: usize,
    cache_bytes_max: usize,
    /// Payload bytes of all slots.
    bytes: u64,
    /// The log should hold entries up to this index, and recovery has not seen their segment.
    unseen: Option<u64>,
}

impl LogIndex {
    pub(crate) fn new(cache_bytes_max: usize) -> Self {
        Self { cache_bytes_max, ..Self::default() }
    }

    /// Starts from a checkpoint whose entries lie in segments that are gone.
    pub(crate) fn from_checkpoint(ends: Checkpoint, cache_bytes_max: usize) -> Self {
        let unseen = (ends.last > ends.purged).then(|| ends.last.map(|id| id.index)).flatten();
        Self { ends, cache_bytes_max, unseen, ..Self::default() }
    }

    /// The index of the first entry, or of the next when there is none.
    pub(crate) fn first_index(&self) -> u64 {
        self.next_index() - self.slots.len() as u64
    }

    /// The index after the last.
    pub(crate) fn next_index(&self) -> u64 {
        self.ends.last.map_or(0, |last| last.index.saturating_add(1))
    }

    /// Payload bytes of all entries.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The indexes that are missing between the last purged entry and the first one here.
    pub(crate) fn hole(&self) -> Option<Range<u64>> {
        let from = self.ends.purged.map_or(0, |id| id.index + 1);
        self.unseen.filter(|&upto| upto >= from).map(|_| from..self.first_index())
    }

    /// Whether these entries may follow.
    pub(crate) fn check_append(&self, entries: &[Entry]) -> io::Result<()> {
        let mut expected = self.ends.last.map(|last| last.index.saturating_add(1));
        for entry in entries {
            let index = entry.id.index;
            if expected.is_some_and(|expected| expected != index) || index == u64::MAX {
                return Err(invalid(format!("append of entry {} after {}", entry.id, show(self.ends.last))));
            }
            if payload_parts(&entry.payload).1.len() > LOG_PAYLOAD_BYTES_MAX {
                return Err(invalid(format!(
                    "entry {} is larger than {LOG_PAYLOAD_BYTES_MAX} bytes",
                    entry.id
                )));
            }
            expected = Some(index + 1);
        }
        Ok(())
    }

    /// Adds entries that [`LogIndex::check_append`] let pass.
    pub(crate) fn append(&mut self, entry: Entry, sequence: u64, place: Option<LogPlace>) {
        let length = payload_parts(&entry.payload).1.len();
        let payload_bytes = u32::try_from(length).unwrap_or(u32::MAX);
        self.slots.push_back(Slot { sequence, term: entry.id.term, payload_bytes, place });
        self.ends.last = Some(entry.id);
        self.bytes += length as u64;
        self.cache_bytes += cached_bytes(&entry);
        self.cache.push_back(entry);
        self.evict();
    }

    /// Removes all entries after `last`.
    pub(crate) fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        if let Some(last) = last
            && let Some(term) = self.term(last.index)
            && term != last.term
        {
            return Err(invalid(format!("truncation after {last}, but the entry there is of term {term}")));
        }
        let mut ends = self.ends;
        ends.truncate_after(last);
        let keep = last.map_or(0, |last| last.index.saturating_add(1));
        if keep >= self.next_index() {
            return Ok(());
        }
        while self.next_index() > keep && self.slots.pop_back().is_some_and(|slot| self.forget(slot)) {
            if let Some(entry) = self.cache.pop_back() {
                self.cache_bytes -= cached_bytes(&entry);
            }
            // The id proper is in `ends`; only the index matters here.
            self.ends.last =
                self.ends.last.and_then(|id| Some(LogId { index: id.index.checked_sub(1)?, ..id }));
        }
        self.ends = ends;
        self.unseen = self.unseen.filter(|_| keep > 0).map(|upto| upto.min(keep.saturating_sub(1)));
        Ok(())
    }

    /// Removes all entries up to and with `upto`.
    pub(crate) fn purge(&mut self, upto: LogId) -> io::Result<()> {
        if self.ends.purged.is_some_and(|purged| upto.index <= purged.index) {
            return Ok(());
        }
        if let Some(term) = self.term(upto.index)
            && term != upto.term
        {
            return Err(invalid(format!("purge up to {upto}, but the entry there is of term {term}")));
        }
        while !self.slots.is_empty() && self.first_index() <= upto.index {
            if let Some(slot) = self.slots.pop_front() {
                self.forget(slot);
            }
        }
        while self.cache.len() > self.slots.len() {
            if let Some(entry) = self.cache.pop_front() {
                self.cache_bytes -= cached_bytes(&entry);
            }
        }
        self.ends.purge(upto);
        self.unseen = self.unseen.filter(|&index| index > upto.index);
        Ok(())
    }

    /// The writer has written an entry. Ignored when it has been removed since.
    pub(crate) fn written(&mut self, sequence: u64, index: u64, place: LogPlace) {
        let first = self.first_index();
        let slot = index.checked_sub(first).and_then(|at| self.slots.get_mut(usize::try_from(at).ok()?));
        if let Some(slot) = slot
            && slot.sequence == sequence
        {
            slot.place = Some(place);
        }
    }

    /// Drops the oldest cached entries until the cache is within its limit; those not yet written must stay.
    pub(crate) fn evict(&mut self) {
        while self.cache_bytes > self.cache_bytes_max
            && self.slots.get(self.slots.len() - self.cache.len()).is_some_and(|slot| slot.place.is_some())
            && let Some(entry) = self.cache.pop_front()
        {
            self.cache_bytes -= cached_bytes(&entry);
        }
    }

    /// The slot of an entry, and the entry itself if it is in memory.
    pub(crate) fn get(&self, index: u64) -> Option<(Slot, Option<&Entry>)> {
        let at = usize::try_from(index.checked_sub(self.first_index())?).ok()?;
        let slot = self.slots.get(at)?;
        let uncached = self.slots.len() - self.cache.len();
        Some((*slot, at.checked_sub(uncached).and_then(|at| self.cache.get(at))))
    }

    fn term(&self, index: u64) -> Option<u64> {
        let ends = [self.ends.last, self.ends.purged];
        let end = ends.into_iter().flatten().find(|id| id.index == index);
        end.map(|id| id.term).or_else(|| Some(self.get(index)?.0.term))
    }

    fn forget(&mut self, slot: Slot) -> bool {
        self.bytes -= u64::from(slot.payload_bytes);
        true
    }
}

/// What an entry takes in the cache, about.
fn cached_bytes(entry: &Entry) -> usize {
    payload_parts(&entry.payload).1.len() + size_of::<Entry>()
}

fn show(id: Option<LogId>) -> String {
    id.map_or_else(|| "the beginning".into(), |id| id.to_string())
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("the log refuses the {what}"))
}
