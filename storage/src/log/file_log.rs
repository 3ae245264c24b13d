//! The log in segment files: what callers see at once, the queue to the writer, and the thread that drives it.

use super::front::{Batch, Found, Front, Request};
use super::held::Held;
use super::recovery;
use super::repair;
use super::writer::{Operation, Surroundings, Writer, Written};
use super::{Done, Entry, Log, LogState};
use crate::directory::OpenError;
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
    /// Who runs the writer.
    pub writer: WriterMode,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { segment_bytes: 16 << 20, cache_bytes: 64 << 20, writer: WriterMode::Thread }
    }
}

/// Who runs the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriterMode {
    /// A thread of its own.
    Thread,
    /// Each call, before it returns: deterministic.
    Inline,
    /// Whoever calls [`FileLog::step`]: deterministic, and writes can be left waiting.
    Stepped,
}

/// The log in segment files. Dropping it is [`Log::close`].
pub struct FileLog {
    shared: Arc<Shared>,
    mode: WriterMode,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    front: Mutex<Front>,
    /// Something is waiting for the writer.
    waiting: Condvar,
    writer: Mutex<Writer>,
    dir: PathBuf,
}

impl FileLog {
    /// Reads the log back and starts the writer.
    pub(crate) fn open(around: Surroundings, options: &LogOptions) -> Result<Self, OpenError> {
        let (files, dir) = (Arc::clone(&around.files), around.dir.clone());
        let scan = recovery::scan(&*files, &dir, &around.marker.get(), options.cache_bytes)?;
        repair::cut_tail(&*files, &dir, &around.marker, &scan)?;
        repair::settle(&*files, &dir, &scan)?;
        let mut writer = Writer::new(around, &scan).map_err(OpenError::io("write to the log in", &dir))?;
        let mut front = Front::new(scan.held);
        front.open_files(std::mem::take(&mut writer.opened));
        let shared = Arc::new(Shared {
            front: Mutex::new(front),
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

    /// Writes and syncs all that is waiting, and calls the callbacks, on this thread. Gives how many requests that
    /// were. Does nothing when another call is doing it, or in [`WriterMode::Thread`].
    pub fn step(&self) -> usize {
        if self.mode == WriterMode::Thread { 0 } else { self.shared.step() }
    }

    /// Puts a request into the queue, after `change` has made its effect visible.
    fn submit(
        &self,
        operation: Operation,
        done: Done,
        change: impl FnOnce(&mut Held, u64, &Operation) -> io::Result<()>,
    ) {
        let mut front = self.shared.lock();
        if front.closing {
            drop(front);
            return done(Err(io::Error::new(io::ErrorKind::BrokenPipe, "the log is closed")));
        }
        front.closing = matches!(operation, Operation::Close);
        front.sequence += 1;
        let sequence = front.sequence;
        let applied = match front.failure() {
            None => change(&mut front.held, sequence, &operation),
            Some(e) => Err(e),
        };
        let operation = match applied {
            Ok(()) => operation,
            Err(e) => Operation::Refused(e),
        };
        front.queue.push_back(Request { sequence, operation, done, since: Instant::now() });
        drop(front);
        self.shared.waiting.notify_one();
        if self.mode == WriterMode::Inline {
            self.shared.step();
        }
    }
}

impl Log for FileLog {
    fn state(&self) -> LogState {
        let front = self.shared.lock();
        let ends = front.held.ends;
        LogState {
            purged: ends.purged,
            last: ends.last,
            committed: ends.committed,
            vote: ends.vote,
            bytes: front.held.bytes(),
        }
    }

    fn append(&self, entries: Vec<Entry>, done: Done) {
        self.submit(Operation::Append(entries), done, |held, sequence, operation| {
            let Operation::Append(entries) = operation else { return Ok(()) };
            held.check_append(entries)?;
            for entry in entries {
                held.append(entry.clone(), sequence, None);
            }
            Ok(())
        });
    }

    fn save_vote(&self, vote: Vote, done: Done) {
        self.submit(Operation::Vote(vote), done, |held, _, _| {
            held.ends.vote = Some(vote);
            Ok(())
        });
    }

    fn save_committed(&self, committed: Option<LogId>) {
        self.shared.lock().held.ends.committed = committed;
    }

    fn truncate_after(&self, last: Option<LogId>, done: Done) {
        self.submit(Operation::Truncate(last), done, |held, _, _| held.truncate_after(last));
    }

    fn purge(&self, upto: LogId, done: Done) {
        self.submit(Operation::Purge(upto), done, |held, _, _| held.purge(upto));
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
            // Its end is all that is waited for; why it ended is in `failed`.
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
    fn lock(&self) -> MutexGuard<'_, Front> {
        self.front.lock().unwrap_or_else(PoisonError::into_inner)
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
            // Off the list first: whoever is told that it is durable must not be seen waiting for it.
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
        let mut front = self.lock();
        front.open_files(std::mem::take(&mut writer.opened));
        match outcome {
            Ok(written) => {
                for Written { sequence, index, place } in written {
                    front.held.written(sequence, index, place);
                }
                front.held.evict();
                Ok(())
            }
            Err(e) => {
                let failure = (e.kind(), e.to_string());
                front.failed.get_or_insert_with(|| failure.clone());
                Err(failure)
            }
        }
    }

    fn tidied(&self, writer: &mut Writer, dropped: &[u64], closes: bool) -> io::Result<()> {
        let mut front = self.lock();
        for number in dropped {
            front.files.remove(number);
        }
        let idle = front.queue.is_empty();
        drop(front);
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
            let front = shared.lock();
            let idle = |front: &mut Front| front.queue.is_empty() && !front.closing;
            let front = shared.waiting.wait_while(front, idle).unwrap_or_else(PoisonError::into_inner);
            let ended = front.queue.is_empty();
            drop(front);
            if ended {
                break;
            }
            shared.step();
        }
        drop(guard);
    })
}

/// If the thread ends in any other way than by a close (a callback panicked), nobody must wait for it for ever.
struct ThreadGuard<'a>(&'a Shared);

impl Drop for ThreadGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(&io::Error::other("a callback of the log panicked"));
            let mut front = self.0.lock();
            front.closing = true;
            let left: Vec<Request> = front.queue.drain(..).collect();
            drop(front);
            for request in left {
                (request.done)(Err(io::Error::other("the log's writer has ended")));
            }
        }
    }
}
