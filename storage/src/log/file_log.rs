//! The log in segment files: what callers see at once, the queue to the writer, and the thread that drives it.

use super::log_index::LogIndex;
use super::recovery;
use super::repair;
use super::segment_files::LogEnvironment;
use super::shared_log_state::{Batch, Found, Request, SharedLogState};
use super::writer::{Operation, Writer, Written};
use super::{Done, Entry, Log, LogState};
use crate::open_error::OpenError;
use crate::{LogId, Vote};
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::time::Instant;

/// How the log works.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// Nominal size of a segment, bytes; one record that is larger gets a larger one.
    pub segment_bytes: u64,
    /// Recent entries kept in memory, bytes.
    pub cache_bytes: usize,
    /// What runs the writer.
    pub writer: WriterMode,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { segment_bytes: 16 << 20, cache_bytes: 64 << 20, writer: WriterMode::Thread }
    }
}

/// What runs the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriterMode {
    /// A thread of its own.
    Thread,
    /// Each call, before it returns: deterministic.
    Inline,
    /// The caller of [`FileLog::step`]: deterministic, and writes can be left waiting.
    Stepped,
}

/// The log in segment files. Dropping it is [`Log::close`].
pub struct FileLog {
    shared: Arc<Shared>,
    mode: WriterMode,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<SharedLogState>,
    /// Something is waiting for the writer.
    waiting: Condvar,
    writer: Mutex<Writer>,
    dir: PathBuf,
}

impl FileLog {
    /// Reads the log back and starts the writer.
    pub(crate) fn open(environment: LogEnvironment, options: &LogOptions) -> Result<Self, OpenError> {
        let (files, dir) = (Arc::clone(&environment.files), environment.dir.clone());
        let scan = recovery::scan(&*files, &dir, &environment.marker.get(), options.cache_bytes)?;
        repair::truncate_tail(&*files, &dir, &environment.marker, &scan)?;
        repair::sync_read(&*files, &dir, &scan)?;
        let mut writer =
            Writer::new(environment, &scan).map_err(OpenError::io("write to the log in", &dir))?;
        let mut state = SharedLogState::new(scan.log_index);
        state.open_files(writer.take_opened());
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            waiting: Condvar::new(),
            writer: Mutex::new(writer),
            dir: dir.clone(),
        });
        let thread = match options.writer {
            WriterMode::Thread => Some(spawn(&shared).map_err(OpenError::io("start the writer of", dir))?),
            WriterMode::Inline | WriterMode::Stepped => None,
        };
        Ok(Self { shared, mode: options.writer, thread: Mutex::new(thread) })
    }

    /// Writes and syncs all that is waiting, and calls the callbacks, on this thread. Gives the number of these
    /// requests. Does nothing when another call is doing it, or in [`WriterMode::Thread`].
    pub fn step(&self) -> usize {
        if self.mode == WriterMode::Thread { 0 } else { self.shared.step() }
    }

    /// Puts a request into the queue, after `change` has made its effect visible.
    fn submit(
        &self,
        operation: Operation,
        done: Done,
        change: impl FnOnce(&mut LogIndex, u64, &Operation) -> io::Result<()>,
    ) {
        let mut state = self.shared.lock();
        if state.closing {
            drop(state);
            return done(Err(io::Error::new(io::ErrorKind::BrokenPipe, "the log is closed")));
        }
        state.closing = matches!(operation, Operation::Close);
        state.sequence += 1;
        let sequence = state.sequence;
        let applied = match state.failure() {
            None => change(&mut state.log_index, sequence, &operation),
            Some(e) => Err(e),
        };
        let operation = match applied {
            Ok(()) => operation,
            Err(e) => Operation::Refused(e),
        };
        state.queue.push_back(Request { sequence, operation, done, since: Instant::now() });
        drop(state);
        self.shared.waiting.notify_one();
        if self.mode == WriterMode::Inline {
            self.shared.step();
        }
    }
}

impl Log for FileLog {
    fn state(&self) -> LogState {
        let state = self.shared.lock();
        let ends = state.log_index.ends;
        LogState {
            purged: ends.purged,
            last: ends.last,
            committed: ends.committed,
            vote: ends.vote,
            bytes: state.log_index.bytes(),
        }
    }

    fn append(&self, entries: Vec<Entry>, done: Done) {
        self.submit(Operation::Append(entries), done, |log_index, sequence, operation| {
            let Operation::Append(entries) = operation else { return Ok(()) };
            log_index.check_append(entries)?;
            for entry in entries {
                log_index.append(entry.clone(), sequence, None);
            }
            Ok(())
        });
    }

    fn save_vote(&self, vote: Vote, done: Done) {
        self.submit(Operation::Vote(vote), done, |log_index, _, _| {
            log_index.ends.vote = Some(vote);
            Ok(())
        });
    }

    fn save_committed(&self, committed: Option<LogId>) {
        self.shared.lock().log_index.ends.committed = committed;
    }

    fn truncate_after(&self, last: Option<LogId>, done: Done) {
        self.submit(Operation::Truncate(last), done, |log_index, _, _| log_index.truncate_after(last));
    }

    fn purge(&self, upto: LogId, done: Done) {
        self.submit(Operation::Purge(upto), done, |log_index, _, _| log_index.purge(upto));
    }

    fn read(&self, range: Range<u64>, max_bytes: usize) -> io::Result<Vec<Entry>> {
        let found = self.shared.lock().find(range, max_bytes)?;
        found.into_iter().map(|found| found.read(&self.shared.dir)).collect()
    }

    fn read_cached(&self, range: Range<u64>, max_bytes: usize) -> Option<Vec<Entry>> {
        let found = self.shared.lock().find(range, max_bytes).ok()?;
        found.into_iter().map(Found::cached).collect()
    }

    fn oldest_wait(&self) -> Option<Duration> {
        self.shared.lock().oldest().map(|since| since.elapsed())
    }

    fn close(&self) {
        self.submit(Operation::Close, Box::new(|_| ()), |_, _, _| Ok(()));
        self.step();
        let on_writer = self.shared.lock().writer_thread == Some(std::thread::current().id());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread.filter(|_| !on_writer) {
            // Only its end matters here; `failed` says why it ended.
            let _ = thread.join();
        }
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for FileLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileLog").field("dir", &self.shared.dir).field("state", &self.state()).finish()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, SharedLogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the writer until nothing is waiting. A callback may call the log again: its request is done here too.
    fn step(&self) -> usize {
        let mut count = 0;
        while let Ok(mut writer) = self.writer.try_lock() {
            let batch = self.lock().take();
            if batch.is_empty() {
                break;
            }
            count += batch.len();
            self.run(&mut writer, batch);
        }
        count
    }

    /// One batch: writes, syncs, acknowledges in order, tidies up.
    fn run(&self, writer: &mut Writer, batch: Batch) {
        let Batch { requests, committed, failure } = batch;
        let operations: Vec<_> =
            requests.iter().map(|request| (request.sequence, &request.operation)).collect();
        let outcome = match failure {
            None => writer.write(&operations, committed),
            Some(e) => Err(e),
        };
        let outcome = self.written(writer, outcome);
        let closes = requests.iter().any(|request| matches!(request.operation, Operation::Close));
        for request in requests {
            let result = match (&outcome, request.operation) {
                (Err((kind, reason)), _) => Err(io::Error::new(*kind, reason.clone())),
                (Ok(()), Operation::Refused(e)) => Err(e),
                (Ok(()), _) => Ok(()),
            };
            // Off the list first: a caller whose write is durable must not be seen waiting for it.
            self.lock().taken.pop_front();
            (request.done)(result);
        }
        if outcome.is_ok() {
            let tidied = writer.tidy().and_then(|dropped| self.tidied(writer, &dropped, closes));
            if let Err(e) = tidied {
                self.fail(&e);
            }
        }
    }

    fn written(
        &self,
        writer: &mut Writer,
        outcome: io::Result<Vec<Written>>,
    ) -> Result<(), (io::ErrorKind, String)> {
        let mut state = self.lock();
        state.open_files(writer.take_opened());
        match outcome {
            Ok(written) => {
                for Written { sequence, index, place } in written {
                    state.log_index.written(sequence, index, place);
                }
                state.log_index.evict();
                Ok(())
            }
            Err(e) => {
                let failure = (e.kind(), e.to_string());
                state.failed.get_or_insert_with(|| failure.clone());
                Err(failure)
            }
        }
    }

    fn tidied(&self, writer: &mut Writer, dropped: &[u64], closes: bool) -> io::Result<()> {
        let mut state = self.lock();
        for number in dropped {
            state.files.remove(number);
        }
        let idle = state.queue.is_empty();
        drop(state);
        if closes {
            return writer.close();
        }
        if idle { writer.note_synced() } else { Ok(()) }
    }

    fn fail(&self, e: &io::Error) {
        tracing::error!("the log cannot be written any more: {e}");
        self.lock().failed.get_or_insert_with(|| (e.kind(), e.to_string()));
    }
}

/// Starts the writer's thread. It ends after a close.
fn spawn(shared: &Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    std::thread::Builder::new().name("log-writer".into()).spawn(move || {
        let guard = ThreadGuard(&shared);
        shared.lock().writer_thread = Some(std::thread::current().id());
        loop {
            let state = shared.lock();
            let idle = |state: &mut SharedLogState| state.queue.is_empty() && !state.closing;
            let state = shared.waiting.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
            let ended = state.queue.is_empty();
            drop(state);
            if ended {
                break;
            }
            shared.step();
        }
        drop(guard);
    })
}

/// If the thread ends in any other way than by a close (a callback panicked), no caller must wait for it for ever.
struct ThreadGuard<'a>(&'a Shared);

impl Drop for ThreadGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(&io::Error::other("a callback of the log panicked"));
            let mut state = self.0.lock();
            state.closing = true;
            let left: Vec<Request> = state.queue.drain(..).collect();
            drop(state);
            for request in left {
                (request.done)(Err(io::Error::other("the log's writer has ended")));
            }
        }
    }
}
