//! openraft's own suite on this project's adapters, over logs and snapshots in memory and on disk.

use super::*;
use crate::consensus::state_machine::StateMachine;
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::{EntryPayload, StorageError};
use storage::checks::memory_log::MemoryLog;
use storage::directory::Directory;
use storage::files::SystemFiles;
use storage::log::LogOptions;
use storage::runtime::SystemRuntime;
use storage::snapshots::{MemorySnapshots, SledSnapshots, Snapshots};
use tempfile::TempDir;

/// The suite begins some logs at index 1, which no cluster does: reads do not reach before the first entry.
#[derive(Clone)]
struct FromAnywhere {
    store: LogStore,
    first: Arc<AtomicU64>,
}

impl FromAnywhere {
    fn clamp(&self, range: &impl RangeBounds<u64>) -> Range<u64> {
        let available = self.store.available(range);
        available.start.max(self.first.load(Ordering::Relaxed))..available.end
    }
}

impl RaftLogReader<Types> for FromAnywhere {
    async fn try_get_log_entries<R>(&mut self, range: R) -> io::Result<Vec<RaftEntry>>
    where
        R: RangeBounds<u64> + Clone + Debug + Send,
    {
        let range = self.clamp(&range);
        self.store.try_get_log_entries(range).await
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<RaftEntry>> {
        self.store.limited_get_log_entries(start, end).await
    }

    async fn entries_stream<R>(&mut self, range: R) -> impl Stream<Item = io::Result<RaftEntry>> + Send
    where
        R: RangeBounds<u64> + Clone + Debug + Send,
    {
        let range = self.clamp(&range);
        self.store.entries_stream(range).await
    }

    async fn read_vote(&mut self) -> io::Result<Option<RaftVote>> {
        self.store.read_vote().await
    }
}

impl RaftLogStorage<Types> for FromAnywhere {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        self.store.get_log_state().await
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, new: &RaftVote) -> io::Result<()> {
        self.store.save_vote(new).await
    }

    async fn save_committed(&mut self, committed: Option<RaftLogId>) -> io::Result<()> {
        self.store.save_committed(committed).await
    }

    async fn read_committed(&mut self) -> io::Result<Option<RaftLogId>> {
        self.store.read_committed().await
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = RaftEntry> + Send,
        I::IntoIter: Send,
    {
        let entries: Vec<RaftEntry> = entries.into_iter().collect();
        if let Some(entry) = entries.first() {
            self.first.fetch_min(entry.log_id.index(), Ordering::Relaxed);
        }
        self.store.append(entries, callback).await
    }

    async fn truncate_after(&mut self, last: Option<RaftLogId>) -> io::Result<()> {
        self.store.truncate_after(last).await
    }

    async fn purge(&mut self, upto: RaftLogId) -> io::Result<()> {
        self.store.purge(upto).await
    }
}

/// Logs and snapshots of memory.
struct InMemory;

impl StoreBuilder<Types, FromAnywhere, StateMachine> for InMemory {
    async fn build(&self) -> Result<((), FromAnywhere, StateMachine), StorageError<Types>> {
        let (log, machine) = adapted(Arc::new(MemoryLog::default()), Arc::new(MemorySnapshots::default()));
        Ok(((), log, machine))
    }
}

/// Logs and snapshots in a real directory each.
struct OnDisk;

impl StoreBuilder<Types, FromAnywhere, StateMachine, TempDir> for OnDisk {
    async fn build(&self) -> Result<(TempDir, FromAnywhere, StateMachine), StorageError<Types>> {
        let dir = tempfile::tempdir().unwrap();
        let files = Arc::new(SystemFiles);
        let opened =
            Directory::open(dir.path(), 1, files, Arc::new(SystemRuntime), LogOptions::default()).unwrap();
        let snapshots = SledSnapshots::open(&opened.directory.snapshots()).unwrap();
        let (log, machine) = adapted(opened.log, Arc::new(snapshots));
        Ok((dir, log, machine))
    }
}

fn adapted(log: Arc<dyn Log>, snapshots: Arc<dyn Snapshots>) -> (FromAnywhere, StateMachine) {
    let log = FromAnywhere { store: LogStore::new(log), first: Arc::new(AtomicU64::new(u64::MAX)) };
    (log, StateMachine::new(Arc::default(), snapshots, Arc::new(SystemRuntime)))
}

#[tokio::test]
async fn openraft_is_content_with_the_adapters() {
    Suite::test_all(InMemory).await.unwrap();
}

#[tokio::test]
async fn openraft_is_content_with_the_real_log_and_snapshots() {
    Suite::test_all(OnDisk).await.unwrap();
}

#[tokio::test]
async fn a_log_that_gives_too_little_is_an_error_not_the_end() {
    let log = Arc::new(MemoryLog::default());
    let mut store = LogStore::new(Arc::clone(&log) as Arc<dyn Log>);
    let entries = (0..3).map(|index| RaftEntry {
        log_id: raft_log_id(storage::LogId { term: 1, index }),
        payload: EntryPayload::Blank,
    });
    store.append(entries, IOFlushed::noop()).await.unwrap();
    assert_eq!(store.try_get_log_entries(1..9).await.unwrap().len(), 2);
    log.fail_reads();
    assert!(store.try_get_log_entries(0..3).await.is_err());
    assert!(store.limited_get_log_entries(0, 3).await.is_err());
}
