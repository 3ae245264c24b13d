//! The log and the vote. [`Log`] is what consensus asks of them, [`FileLog`] keeps them in segment files.
//!
//! ```text
//! append ──▶ LogIndex (readable at once) ──▶ queue ──▶ Writer: records ──▶ write ──▶ fdatasync ──▶ done, in order
//!
//! opening: Scan (reads, refuses damage) ──▶ repair (truncates a torn tail, syncs) ──▶ LogIndex, Writer
//! ```
//!
//! - `record`, `segment`: the bytes. `log_index`: where each entry lies, and the newest entries.
//! - `segment_files`: segments made ahead and unlinked after a purge.
//! - `writer`: the only module that writes; knows no thread. `shared_log_state`: what callers and the writer share.
//! - `file_log`: the trait, the thread, callbacks.
//! - `recovery`, `repair`: what survived, and the proof that nothing is missing.

#[cfg(any(test, fuzzing))]
pub(crate) mod checks;
mod file_log;
mod log_index;
mod record;
mod recovery;
mod repair;
mod segment;
mod segment_files;
mod shared_log_state;
mod writer;

pub use file_log::{FileLog, LogOptions, WriterMode};
pub(crate) use segment_files::LogEnvironment;

use crate::{LogId, Vote};
use bytes::Bytes;
use std::io;
use std::ops::Range;
use std::time::Duration;

/// A log entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its term and index.
    pub id: LogId,
    /// What it carries.
    pub payload: Payload,
}

/// What an entry carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// Nothing: a new leader's first entry.
    Blank,
    /// An encoded batch of commands ([`crate::format::encode`] of `Vec<Command>`).
    Commands(Bytes),
    /// A membership, encoded by the consensus crate.
    Membership(Bytes),
}

/// The ends of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogState {
    /// Last purged entry.
    pub purged: Option<LogId>,
    /// Last entry; the last purged one when the log is empty.
    pub last: Option<LogId>,
    /// Last entry known to be committed (written lazily).
    pub committed: Option<LogId>,
    /// The vote.
    pub vote: Option<Vote>,
    /// Payload bytes of the entries from the first kept to the last.
    pub bytes: u64,
}

/// Called once, from the log's writer, when a write is on stable storage (or failed).
pub type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// An ordered, durable log with a vote.
///
/// To ensure correctness:
/// - Writes take effect in the order of the calls, whatever their kind; `done` is called in that order.
/// - What was appended, truncated or purged is visible to `read` and `state` when the call returns, before it is
///   durable.
/// - `done(Ok)` only after `fdatasync`. After a failed write or sync every later write fails too.
/// - The log has no holes: `read` of a range that it holds gives every entry of it, up to `max_bytes` (but always
///   at least one); anything else is an error, never a shorter answer.
pub trait Log: Send + Sync + 'static {
    /// The ends of the log, the vote and the last known commit, as of the last call that wrote.
    fn state(&self) -> LogState;

    /// Appends entries that follow the last one.
    fn append(&self, entries: Vec<Entry>, done: Done);

    /// Saves the vote.
    fn save_vote(&self, vote: Vote, done: Done);

    /// Notes how far the log is committed; rides along with the next sync, no sync of its own.
    fn save_committed(&self, committed: Option<LogId>);

    /// Removes all entries after `last` (all entries with `None`).
    fn truncate_after(&self, last: Option<LogId>, done: Done);

    /// Removes all entries up to and with `upto`.
    fn purge(&self, upto: LogId, done: Done);

    /// Entries of the index range, in order. May read the disk: call it where blocking is allowed.
    ///
    /// # Errors
    /// A part of the range is not held, or the disk gives something else than was written.
    fn read(&self, range: Range<u64>, max_bytes: usize) -> io::Result<Vec<Entry>>;

    /// As [`Log::read`], if all that it would give is in memory: answers without blocking, or not at all.
    fn read_cached(&self, _range: Range<u64>, _max_bytes: usize) -> Option<Vec<Entry>> {
        None
    }

    /// How long the oldest write that is not yet durable has been waiting.
    fn oldest_wait(&self) -> Option<Duration>;

    /// Ends the writer after all writes before it are durable; blocks until then. Later writes fail.
    fn close(&self);
}
