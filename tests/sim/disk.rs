//! A node's disk: the real log over files in memory that lose what was not synced, written a while after it was asked
//! for; snapshots in memory; what the data directory knows.

use crate::dice::Dice;
use crate::host::{Clock, Moment};
use crate::record::Record;
use raft::NodeId;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use storage::directory::Directory;
use storage::files::MemoryFiles;
use storage::log::{Done, Entry, FileLog, Log, LogOptions, LogState, Payload, WriterMode};
use storage::marker::MarkerFile;
use storage::runtime::Runtime;
use storage::snapshots::MemorySnapshots;
use storage::{Command, LogId, Vote, format};
use tokio::sync::Notify;

const DIRECTORY: &str = "/data";
/// Segments are small, so that a run has several.
const SEGMENT_BYTES: u64 = 256 << 10;
/// How long a write may hang.
pub(crate) const SLOW_WRITE_MAX: Duration = Duration::from_millis(1_200);

/// What outlives a node's processes.
#[derive(Default)]
pub(crate) struct Disk {
    pub(crate) files: MemoryFiles,
    pub(crate) snapshots: MemorySnapshots,
    /// Each write hangs until then.
    slow_until: Arc<Mutex<Moment>>,
}

/// What a process has open.
pub(crate) struct OpenDisk {
    pub(crate) log: Arc<SimLog>,
    pub(crate) directory: Arc<MarkerFile>,
    pub(crate) directory_id: u128,
}

impl Disk {
    pub(crate) fn is_slow_until(&self, until: Moment) {
        *self.slow_until.lock().unwrap() = until;
    }

    pub(crate) fn open(
        &self,
        node: NodeId,
        runtime: Arc<dyn Runtime>,
        record: &Arc<Record>,
    ) -> Result<OpenDisk, String> {
        let options =
            LogOptions { segment_bytes: SEGMENT_BYTES, writer: WriterMode::Stepped, ..LogOptions::default() };
        let files = Arc::new(self.files.clone());
        let opened = Directory::open(Path::new(DIRECTORY), node, files, runtime, options)
            .map_err(|error| format!("node {node} cannot open its directory: {error}"))?;
        let log = SimLog {
            inner: opened.log,
            asked: Notify::new(),
            slow_until: Arc::clone(&self.slow_until),
            node,
            record: Arc::clone(record),
        };
        Ok(OpenDisk {
            directory_id: opened.directory.id(),
            log: Arc::new(log),
            directory: Arc::clone(opened.directory.marker()),
        })
    }
}

/// The real log, whose writer a task of the node drives.
pub(crate) struct SimLog {
    inner: Arc<FileLog>,
    asked: Notify,
    slow_until: Arc<Mutex<Moment>>,
    node: NodeId,
    record: Arc<Record>,
}

impl SimLog {
    /// Writes and syncs what waits, each time after a disk's while; one time in so many it hangs.
    pub(crate) async fn write(&self, clock: Clock, mut dice: Dice, hangs_of: u64) {
        loop {
            self.asked.notified().await;
            let slow = clock.now() < *self.slow_until.lock().unwrap();
            let hangs = dice.within(0, hangs_of) == 0 || slow;
            let takes = if hangs {
                dice.ms(100, SLOW_WRITE_MAX.as_millis() as u64)
            } else {
                Duration::from_millis(dice.within(0, 4))
            };
            if !takes.is_zero() {
                clock.sleep_until(clock.now() + takes).await;
            }
            self.inner.step();
        }
    }
}

impl Log for SimLog {
    fn state(&self) -> LogState {
        self.inner.state()
    }

    fn append(&self, entries: Vec<Entry>, done: Done) {
        for entry in &entries {
            if let Payload::Commands(bytes) = &entry.payload
                && let Ok(commands) = format::decode::<Vec<Command>>("log entry", bytes)
            {
                self.record.appended(entry.id, commands);
            }
        }
        self.inner.append(entries, done);
        self.asked.notify_one();
    }

    fn save_vote(&self, vote: Vote, done: Done) {
        self.record.voted(self.node, vote);
        self.inner.save_vote(vote, done);
        self.asked.notify_one();
    }

    fn save_committed(&self, committed: Option<LogId>) {
        self.inner.save_committed(committed);
    }

    fn truncate_after(&self, last: Option<LogId>, done: Done) {
        self.inner.truncate_after(last, done);
        self.asked.notify_one();
    }

    fn purge(&self, upto: LogId, done: Done) {
        self.inner.purge(upto, done);
        self.asked.notify_one();
    }

    fn read(&self, range: Range<u64>, max_bytes: usize) -> io::Result<Vec<Entry>> {
        self.inner.read(range, max_bytes)
    }

    fn read_cached(&self, range: Range<u64>, max_bytes: usize) -> Option<Vec<Entry>> {
        self.inner.read_cached(range, max_bytes)
    }

    /// The watchdog is a thread that lives in real time: it must see nothing of what waits in simulated time.
    fn oldest_wait(&self) -> Option<Duration> {
        None
    }

    fn close(&self) {
        self.inner.close();
    }
}
