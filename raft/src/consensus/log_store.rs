//! openraft's log storage over [`Log`].

use super::conversions::{entry, raft_entry};
use super::types::{RaftEntry, RaftLogId, RaftVote, Types, log_id, raft_log_id, raft_vote, vote};
use crate::local::blocking;
use futures_util::Stream;
use futures_util::stream;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::limits::APPEND_BYTES_MAX;
use storage::log::{Done, Entry, Log, Payload};
use tokio::sync::oneshot;

/// The log, as openraft calls it. Clones are the same log.
#[derive(Clone)]
pub(crate) struct LogStore {
    log: Arc<dyn Log>,
    appended_bytes: Arc<AtomicU64>,
}

impl LogStore {
    /// Adapts a log.
    pub(crate) fn new(log: Arc<dyn Log>) -> Self {
        let appended_bytes = Arc::new(AtomicU64::new(log.state().bytes));
        Self { log, appended_bytes }
    }

    /// Payload bytes appended so far, with those of the log at the start.
    pub(crate) fn appended_bytes(&self) -> u64 {
        self.appended_bytes.load(Ordering::Relaxed)
    }

    /// The part of a range that is in the log.
    fn available(&self, range: &impl RangeBounds<u64>) -> Range<u64> {
        let state = self.log.state();
        let first = state.purged.map_or(0, |id| id.index + 1);
        let end = state.last.map_or(0, |id| id.index + 1);
        let from = match range.start_bound() {
            Bound::Included(index) => *index,
            Bound::Excluded(index) => index + 1,
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(index) => index + 1,
            Bound::Excluded(index) => *index,
            Bound::Unbounded => u64::MAX,
        };
        from.max(first)..to.min(end)
    }

    /// Reads from the start of the range, as much as `max_bytes` allows. From memory when the log has it there.
    async fn read(&self, range: Range<u64>, max_bytes: usize) -> io::Result<Vec<RaftEntry>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let log = Arc::clone(&self.log);
        let entries = match log.read_cached(range.clone(), max_bytes) {
            Some(entries) => entries,
            None => blocking(move || log.read(range, max_bytes)).await?,
        };
        entries.into_iter().map(raft_entry).collect()
    }
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<R>(&mut self, range: R) -> io::Result<Vec<RaftEntry>>
    where
        R: RangeBounds<u64> + Clone + Debug + Send,
    {
        let mut range = self.available(&range);
        let mut entries = Vec::new();
        while !range.is_empty() {
            let part = self.read(range.clone(), APPEND_BYTES_MAX).await?;
            range.start += advance(&part, &range)?;
            entries.extend(part);
        }
        Ok(entries)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<RaftEntry>> {
        self.read(start..end, APPEND_BYTES_MAX).await
    }

    async fn entries_stream<R>(&mut self, range: R) -> impl Stream<Item = io::Result<RaftEntry>> + Send
    where
        R: RangeBounds<u64> + Clone + Debug + Send,
    {
        // In parts: a node that catches up must not have its whole log in memory.
        let whole = self.available(&range);
        let read_on = |(store, mut range): (Self, Range<u64>)| async move {
            if range.is_empty() {
                return None;
            }
            let part = match store.read(range.clone(), APPEND_BYTES_MAX).await {
                Ok(part) => part,
                Err(e) => return Some((vec![Err(e)], (store, 0..0))),
            };
            match advance(&part, &range) {
                Ok(read) => range.start += read,
                Err(e) => return Some((vec![Err(e)], (store, 0..0))),
            }
            Some((part.into_iter().map(Ok).collect(), (store, range)))
        };
        let parts = stream::unfold((self.clone(), whole), read_on);
        Box::pin(futures_util::StreamExt::flat_map(parts, stream::iter))
    }

    async fn read_vote(&mut self) -> io::Result<Option<RaftVote>> {
        Ok(self.log.state().vote.map(raft_vote))
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let state = self.log.state();
        Ok(LogState {
            last_purged_log_id: state.purged.map(raft_log_id),
            last_log_id: state.last.map(raft_log_id),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, new: &RaftVote) -> io::Result<()> {
        let (done, durable) = completion();
        self.log.save_vote(vote(new), done);
        durable.await.map_err(io::Error::other)?
    }

    async fn save_committed(&mut self, committed: Option<RaftLogId>) -> io::Result<()> {
        self.log.save_committed(committed.as_ref().map(log_id));
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<RaftLogId>> {
        Ok(self.log.state().committed.map(raft_log_id))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = RaftEntry> + Send,
        I::IntoIter: Send,
    {
        let entries = entries.into_iter().map(entry).collect::<io::Result<Vec<_>>>()?;
        let bytes: usize = entries.iter().map(payload_bytes).sum();
        self.appended_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.log.append(entries, Box::new(move |result| callback.io_completed(result)));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<RaftLogId>) -> io::Result<()> {
        // Awaited, though the log is ordered: a snapshot that openraft installs next goes to another store, and after
        // a crash that store must not be ahead of a conflicting tail here.
        let (done, durable) = completion();
        self.log.truncate_after(last.as_ref().map(log_id), done);
        durable.await.map_err(io::Error::other)?
    }

    async fn purge(&mut self, upto: RaftLogId) -> io::Result<()> {
        // Not awaited: entries behind a snapshot may be purged twice. A failed write fails all later ones, so the next
        // append reports it.
        let done: Done = Box::new(|result| {
            if let Err(e) = result {
                tracing::error!("cannot purge the log: {e}");
            }
        });
        self.log.purge(log_id(&upto), done);
        Ok(())
    }
}

fn payload_bytes(entry: &Entry) -> usize {
    match &entry.payload {
        Payload::Blank => 0,
        Payload::Commands(bytes) | Payload::Membership(bytes) => bytes.len(),
    }
}

/// A callback, and the receiver of its result.
fn completion() -> (Done, oneshot::Receiver<io::Result<()>>) {
    let (tx, rx) = oneshot::channel();
    let done: Done = Box::new(move |result| {
        // The receiver is gone only after openraft's core.
        let _ = tx.send(result);
    });
    (done, rx)
}

/// How many entries were read. No entry, or another first one than asked for, is an error of the log, never its end.
fn advance(part: &[RaftEntry], range: &Range<u64>) -> io::Result<u64> {
    let first = part.first().map(|entry| entry.log_id.index());
    if first == Some(range.start) {
        return u64::try_from(part.len()).map_err(io::Error::other);
    }
    let wrong = format!("the log gave entries from {first:?} when asked for {range:?}");
    Err(io::Error::new(io::ErrorKind::InvalidData, wrong))
}

#[cfg(test)]
mod tests;
