//! Opens a node's data directory: log, snapshots, marker and disk guard.

mod access;
mod disk_space;
mod marked_snapshots;
mod raft_directory;

use crate::node::RunError;
use disk_space::SharedLevel;
use marked_snapshots::MarkedSnapshots;
use raft::NodeId;
use raft_directory::RaftDirectory;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use storage::LogId;
use storage::directory::{Directory, OpenError, Opened};
use storage::disk::{DiskGuard, FileSystemSpace, SpaceLimits};
use storage::files::SystemFiles;
use storage::log::{Log, LogOptions, LogState};
use storage::runtime::Runtime;
use storage::snapshots::{RUNBOOK, SledSnapshots, SnapshotError, Snapshots};
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

/// How long opening waits for another process that has the directory open.
const LOCK_WAIT: Duration = Duration::from_secs(1);
/// Between two attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// An open data directory: what consensus stands on.
pub(crate) struct DataDirectory {
    /// Random id of this directory.
    pub(crate) id: u128,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) snapshots: Arc<dyn Snapshots>,
    /// The marker and the free space, as consensus asks for them.
    pub(crate) state: Arc<dyn raft::Directory>,
    _space_watch: AbortOnDropHandle<()>,
}

/// Opens a node's data directory, and creates it if there is none.
pub(crate) async fn open(
    data: &Path,
    node_id: NodeId,
    runtime: Arc<dyn Runtime>,
    log: LogOptions,
) -> Result<DataDirectory, RunError> {
    let asked = Instant::now();
    loop {
        let (path, runtime, log) = (data.to_owned(), Arc::clone(&runtime), log.clone());
        let wait_for_lock = asked.elapsed() < LOCK_WAIT;
        let opening = move || Opening::open(&path, node_id, runtime, log, wait_for_lock);
        let opening = tokio::task::spawn_blocking(opening).await;
        match opening.map_err(|error| RunError::Failed(error.to_string()))?? {
            Some(opening) => return Ok(opening.start()),
            None => sleep(LOCK_PAUSE).await,
        }
    }
}

impl DataDirectory {
    /// Ends the log's writer.
    pub(crate) async fn close(&self) {
        let log = Arc::clone(&self.log);
        let _ = tokio::task::spawn_blocking(move || log.close()).await;
    }
}

/// The opened files, before any task runs.
struct Opening {
    opened: Opened,
    snapshots: SledSnapshots,
    guard: DiskGuard,
}

impl Opening {
    /// `None` when another process has the directory open and `wait_for_lock` is set: that process may be about to end.
    fn open(
        path: &Path,
        node_id: NodeId,
        runtime: Arc<dyn Runtime>,
        log: LogOptions,
        wait_for_lock: bool,
    ) -> Result<Option<Self>, RunError> {
        // On a full disk the guard must give its reserve back before anything else can be opened. A directory without
        // a reserve is new, and must still be empty when the node creates its files.
        let early = path.join(DiskGuard::RESERVE_FILE).exists().then(|| guard(path)).transpose()?;
        let opened = match Directory::open(path, node_id, Arc::new(SystemFiles), runtime, log) {
            Err(OpenError::Locked { .. }) if wait_for_lock => return Ok(None),
            opened => opened.map_err(|error| refused(path, error))?,
        };
        access::keep_private(path);
        let guard = early.map_or_else(|| guard(path), Ok)?;
        let snapshots = SledSnapshots::open(&opened.directory.snapshots());
        let snapshots = snapshots.map_err(|error| snapshots_refused(path, error))?;
        check_snapshot(&opened, &snapshots)?;
        Ok(Some(Self { opened, snapshots, guard }))
    }

    fn start(self) -> DataDirectory {
        let Self { opened, snapshots, guard } = self;
        let level = SharedLevel::new(guard.level());
        let marker = Arc::clone(opened.directory.marker());
        DataDirectory {
            id: opened.directory.id(),
            log: opened.log,
            snapshots: Arc::new(MarkedSnapshots::new(snapshots, Arc::clone(&marker))),
            state: Arc::new(RaftDirectory::new(marker, level.clone())),
            _space_watch: AbortOnDropHandle::new(tokio::spawn(disk_space::watch(guard, level))),
        }
    }
}

fn guard(path: &Path) -> Result<DiskGuard, RunError> {
    let source = Arc::new(FileSystemSpace::new(PathBuf::from(path)));
    DiskGuard::open(path, SpaceLimits::default(), source).map_err(|error| {
        access::explain(path, error.kind(), format!("cannot look at the disk of {}: {error}", path.display()))
    })
}

fn refused(path: &Path, error: OpenError) -> RunError {
    match &error {
        OpenError::Io { source, .. } => access::explain(path, source.kind(), error.to_string()),
        _ => RunError::Refused(error.to_string()),
    }
}

fn snapshots_refused(path: &Path, error: SnapshotError) -> RunError {
    match &error {
        SnapshotError::Io { source, .. } => access::explain(path, source.kind(), error.to_string()),
        _ => RunError::Refused(error.to_string()),
    }
}

/// The snapshots must reach the entries that were purged from the log, or entries are lost. If an operator moved a
/// damaged newest snapshot away, an older one and the log behind it lead to the same tables.
fn check_snapshot(opened: &Opened, snapshots: &SledSnapshots) -> Result<(), RunError> {
    let newest = snapshots.latest().map(|meta| meta.last);
    let (log, marked) = (opened.log.state(), opened.directory.marker().get().snapshot);
    let show = |id: Option<LogId>| id.map_or("none".to_owned(), |id| id.to_string());
    let directory = opened.directory.snapshots();
    if !is_complete(newest, &log, marked) {
        return Err(RunError::Refused(format!(
            "the snapshots in {} and the log do not meet: the newest snapshot stands at {}, the log begins after {} and ends \
             at {}, this node has had everything up to {}, and what is between them is lost here; nothing was changed; \
             see {RUNBOOK}",
            directory.display(),
            show(newest),
            show(log.purged),
            show(log.last),
            show(marked.max(log.purged)),
        )));
    }
    if newest < marked {
        tracing::warn!(
            directory = %directory.display(),
            newest = %show(newest),
            expected = %show(marked),
            "the newest snapshot is not there any more: this node goes on from an older state and the log behind it"
        );
    }
    Ok(())
}

/// Whether a snapshot and the log hold every entry that this node has ever had. `marked`: the newest snapshot that was
/// ever durable.
fn is_complete(newest: Option<LogId>, log: &LogState, marked: Option<LogId>) -> bool {
    newest >= log.purged && newest.max(log.last) >= marked
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(index: u64) -> Option<LogId> {
        Some(LogId { term: 1, index })
    }

    #[test]
    fn a_snapshot_and_the_log_must_reach_every_entry_that_the_node_ever_had() {
        let log = |purged, last| LogState { purged, last, ..LogState::default() };
        assert!(is_complete(None, &log(None, None), None));
        assert!(is_complete(at(40), &log(at(20), at(45)), at(40)));
        assert!(is_complete(at(20), &log(at(20), at(45)), at(40)), "the log behind the older one");
        assert!(is_complete(at(40), &log(at(20), at(30)), at(40)), "received, and not yet purged up to it");
        assert!(!is_complete(at(20), &log(at(30), at(45)), at(40)), "a gap");
        assert!(!is_complete(at(20), &log(at(20), at(30)), at(40)), "the log never had what was received");
        assert!(!is_complete(None, &log(at(20), at(45)), at(40)));
    }
}
