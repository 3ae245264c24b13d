//! The writer: what a node does to its disk, only faster and without sense.

use super::Parts;
use super::content::{entry, snapshot_chunk, snapshot_chunks, snapshot_meta};
use super::history::{HistoryEvent, HistoryWriter};
use super::model::{Model, Operation};
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use storage::directory::{Directory, Opened};
use storage::files::SystemFiles;
use storage::log::{Log, LogOptions};
use storage::runtime::SystemRuntime;
use storage::snapshots::{SledSnapshots, Snapshots};
use storage::split_mix::SplitMix;
use storage::{LogId, Vote};

/// The node that the directory belongs to.
const NODE: u64 = 1;

/// Operations of the log that may be unacknowledged at a time.
const IN_FLIGHT_MAX: u64 = 12;

/// Opens a data directory as a node does, with segments of this size.
pub fn open(directory: &Path, segment_bytes: u64) -> Result<(Opened, SledSnapshots), Box<dyn Error>> {
    let options = LogOptions { segment_bytes, ..LogOptions::default() };
    let opened = Directory::open(directory, NODE, Arc::new(SystemFiles), Arc::new(SystemRuntime), options)?;
    let snapshots = SledSnapshots::open(&opened.directory.snapshots())?;
    Ok((opened, snapshots))
}

/// Writes until it is killed.
///
/// # Errors
/// Anything fails.
pub fn write(
    directory: &Path,
    parts: Parts,
    seed: u64,
    history: Box<dyn Write + Send>,
) -> Result<(), Box<dyn Error>> {
    let history = HistoryWriter::new(history);
    let mut random = SplitMix::new(seed);
    let segment_bytes = [64 << 10, 1 << 20, 16 << 20][usize::try_from(random.below(3))?];
    let (opened, snapshots) = open(directory, segment_bytes)?;
    let model = Model::read(&*opened.log)?;
    print_base(&model, &snapshots, &history)?;
    if !parts.log {
        let mut last = snapshots.latest().map_or(LogId::default(), |meta| meta.last);
        loop {
            last.index += 1 + random.below(3);
            write_snapshot(&snapshots, last, &history)?;
        }
    }
    let snapshots = parts.snapshots.then(|| spawn_snapshots(snapshots, &opened.directory, history.clone()));
    let floor = model.purged.map_or(0, |purged| purged.index);
    let mut writer = LogWriter {
        log: opened.log,
        history,
        random,
        model,
        number: 0,
        floor,
        acknowledged: Arc::default(),
        snapshots,
    };
    loop {
        writer.step()?;
    }
}

fn print_base(model: &Model, snapshots: &dyn Snapshots, history: &HistoryWriter) -> io::Result<()> {
    if let Some(vote) = model.vote {
        history.print(&HistoryEvent::BaseVote(vote))?;
    }
    if let Some(purged) = model.purged {
        history.print(&HistoryEvent::BasePurged(purged))?;
    }
    for (term, first, count) in model.runs() {
        history.print(&HistoryEvent::BaseEntries(term, first, count))?;
    }
    for meta in snapshots.all() {
        history.print(&HistoryEvent::BaseSnapshot(meta.last))?;
    }
    history.print(&HistoryEvent::Ready)
}

fn write_snapshot(snapshots: &dyn Snapshots, last: LogId, history: &HistoryWriter) -> io::Result<()> {
    let mut writer = snapshots.begin(snapshot_meta(last))?;
    for number in 0..snapshot_chunks(last) {
        writer.chunk(&snapshot_chunk(last, number))?;
    }
    history.print(&HistoryEvent::TrySnapshot(last))?;
    writer.commit()?;
    history.print(&HistoryEvent::OkSnapshot(last))
}

/// Writes snapshots beside the log, one at a time.
struct SnapshotThread {
    requests: Sender<LogId>,
    written: Receiver<Vec<LogId>>,
    busy: bool,
    newest: Option<LogId>,
    /// The log may be purged up to here.
    purge_upto: Option<LogId>,
}

fn spawn_snapshots(
    snapshots: SledSnapshots,
    directory: &Directory,
    history: HistoryWriter,
) -> SnapshotThread {
    let (requests, requested) = channel::<LogId>();
    let (results, written) = channel();
    let newest = snapshots.latest().map(|meta| meta.last);
    let marker = Arc::clone(directory.marker());
    std::thread::spawn(move || {
        for last in requested {
            let done = write_snapshot(&snapshots, last, &history).and_then(|()| marker.set_snapshot(last));
            fail_loudly(done);
            let kept = snapshots.all().iter().map(|meta| meta.last).collect();
            if results.send(kept).is_err() {
                return;
            }
        }
    });
    SnapshotThread { requests, written, busy: false, newest, purge_upto: None }
}

/// A writer that cannot write must not look as if it were killed.
fn fail_loudly(result: io::Result<()>) {
    if let Err(error) = result {
        #[allow(clippy::print_stderr, reason = "the reason why the writer ended by itself")]
        {
            eprintln!("the writer failed: {error}");
        }
        std::process::exit(3);
    }
}

struct LogWriter {
    log: Arc<dyn Log>,
    history: HistoryWriter,
    random: SplitMix,
    /// The log after all calls.
    model: Model,
    number: u64,
    /// No truncation below: what is committed, purged or in a snapshot.
    floor: u64,
    acknowledged: Arc<(Mutex<u64>, Condvar)>,
    snapshots: Option<SnapshotThread>,
}

impl LogWriter {
    fn step(&mut self) -> io::Result<()> {
        self.await_room();
        self.hear_of_snapshots();
        match self.random.below(20) {
            0..=11 => self.append(),
            12 | 13 => self.vote(),
            14 | 15 => self.truncate(),
            16 | 17 => self.purge(),
            18 => self.snapshot(),
            _ => {
                if let Some(last) = self.model.last() {
                    self.floor = self.floor.max(last.index);
                    self.log.save_committed(Some(last));
                }
                Ok(())
            }
        }
    }

    /// Waits until not too many operations are in flight.
    fn await_room(&self) {
        let (acknowledged, changed) = &*self.acknowledged;
        let guard = acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.number;
        drop(changed.wait_while(guard, |acknowledged| number - *acknowledged >= IN_FLIGHT_MAX));
    }

    fn call(&mut self, operation: Operation) -> io::Result<()> {
        self.number += 1;
        let number = self.number;
        self.history.print(&HistoryEvent::Try(number, operation))?;
        self.model.apply(operation);
        let (history, acknowledged) = (self.history.clone(), Arc::clone(&self.acknowledged));
        let done = Box::new(move |result: io::Result<()>| {
            fail_loudly(result.and_then(|()| history.print(&HistoryEvent::Ok(number))));
            *acknowledged.0.lock().unwrap_or_else(PoisonError::into_inner) = number;
            acknowledged.1.notify_all();
        });
        match operation {
            Operation::Append { term, first, count } => {
                let entries = (first..first + count).map(|index| entry(LogId { term, index })).collect();
                self.log.append(entries, done);
            }
            Operation::Vote(vote) => self.log.save_vote(vote, done),
            Operation::TruncateAfter(last) => self.log.truncate_after(Some(last), done),
            Operation::Purge(upto) => self.log.purge(upto, done),
        }
        Ok(())
    }

    /// The term that the next entry has.
    fn term(&self) -> u64 {
        let last = self.model.last().map_or(0, |last| last.term);
        self.model.vote.map_or(0, |vote| vote.term).max(last)
    }

    fn append(&mut self) -> io::Result<()> {
        let first = self.model.last().map_or(0, |last| last.index + 1);
        let count = 1 + self.random.below(8);
        self.call(Operation::Append { term: self.term(), first, count })
    }

    fn vote(&mut self) -> io::Result<()> {
        let vote = match self.model.vote {
            Some(vote) if !vote.committed && vote.term >= self.term() => Vote { committed: true, ..vote },
            _ => Vote { term: self.term() + 1, node: 1 + self.random.below(3), committed: false },
        };
        self.call(Operation::Vote(vote))
    }

    fn truncate(&mut self) -> io::Result<()> {
        let Some(last) = self.model.last().filter(|last| last.index > self.floor) else { return Ok(()) };
        let index = last.index - 1 - self.random.below((last.index - self.floor).min(10));
        let Some(keep) = self.model.id(index) else { return Ok(()) };
        // A new leader is why anything is truncated; so no id is ever used twice.
        let vote = Vote { term: self.term() + 1, node: 2, committed: true };
        self.call(Operation::Vote(vote))?;
        self.call(Operation::TruncateAfter(keep))
    }

    fn purge(&mut self) -> io::Result<()> {
        let Some((&first, _)) = self.model.terms.first_key_value() else { return Ok(()) };
        let limit = match &self.snapshots {
            None => self.model.last(),
            Some(snapshots) => snapshots.purge_upto,
        };
        let Some(LogId { index: limit, .. }) = limit else { return Ok(()) };
        let Some(upto) = self.model.id(first + self.random.below((limit + 1).saturating_sub(first))) else {
            return Ok(());
        };
        if upto.index > limit {
            return Ok(());
        }
        self.floor = self.floor.max(upto.index);
        self.call(Operation::Purge(upto))
    }

    /// A snapshot of the present state, or one that was received and is far ahead.
    fn snapshot(&mut self) -> io::Result<()> {
        let Some(last) = self.model.last() else { return Ok(()) };
        let ahead = self.random.below(4) == 0;
        let id = LogId { term: self.term(), index: last.index + 1 + self.random.below(50) };
        let id = if ahead { id } else { last };
        let Some(snapshots) = &mut self.snapshots else {
            // Without snapshots: only the purge that follows one which is ahead.
            self.floor = self.floor.max(id.index);
            return if ahead { self.call(Operation::Purge(id)) } else { Ok(()) };
        };
        if snapshots.busy || snapshots.newest >= Some(id) {
            return Ok(());
        }
        snapshots.busy = true;
        self.floor = self.floor.max(last.index);
        if snapshots.requests.send(id).is_err() {
            return Err(io::Error::other("the thread of snapshots has ended"));
        }
        if ahead {
            // As a node that installs one: nothing else happens until it is durable, then the log goes.
            let kept = snapshots.written.recv().map_err(io::Error::other)?;
            snapshots.note_kept(&kept);
            self.floor = id.index;
            return self.call(Operation::Purge(id));
        }
        Ok(())
    }

    fn hear_of_snapshots(&mut self) {
        if let Some(snapshots) = &mut self.snapshots
            && let Ok(kept) = snapshots.written.try_recv()
        {
            snapshots.note_kept(&kept);
        }
    }
}

impl SnapshotThread {
    fn note_kept(&mut self, kept: &[LogId]) {
        self.busy = false;
        self.newest = kept.last().copied();
        self.purge_upto = kept.first().copied();
    }
}
