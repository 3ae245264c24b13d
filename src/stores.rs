//! A node's data directory, opened: what consensus stands on.

use crate::run::RunError;
use raft::NodeId;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use storage::LogId;
use storage::directory::{Directory, OpenError, Opened};
use storage::disk::{DiskGuard, FileSystemSpace, SpaceLevel, SpaceLimits};
use storage::files::SystemFiles;
use storage::log::{Cut, Log, LogOptions, LogState};
use storage::marker::MarkerFile;
use storage::runtime::Runtime;
use storage::snapshots::{RUNBOOK, SledSnapshots, SnapshotError, SnapshotMeta, SnapshotWriter, Snapshots};
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

/// Between two looks at the free space.
const LOOK_AT_SPACE: Duration = Duration::from_secs(1);

/// How long a directory that is in use is tried again.
const LOCK_WAIT: Duration = Duration::from_secs(1);
/// Between two tries.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Log, snapshots, and what the directory knows of itself.
pub(crate) struct Stores {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) snapshots: Arc<dyn Snapshots>,
    pub(crate) directory: Arc<dyn raft::Directory>,
    pub(crate) directory_id: u128,
    _space: AbortOnDropHandle<()>,
}

/// Opens a node's data directory, and makes it if there is none.
pub(crate) async fn open(
    data: &Path,
    node_id: NodeId,
    runtime: Arc<dyn Runtime>,
    log: LogOptions,
) -> Result<Stores, RunError> {
    let asked = Instant::now();
    loop {
        let (path, runtime, log) = (data.to_owned(), Arc::clone(&runtime), log.clone());
        let patient = asked.elapsed() < LOCK_WAIT;
        let opening = move || Opening::open(&path, node_id, runtime, log, patient);
        let opening = tokio::task::spawn_blocking(opening).await;
        match opening.map_err(|error| RunError::Failed(error.to_string()))?? {
            Some(opening) => return Ok(opening.into_stores()),
            None => sleep(LOCK_PAUSE).await,
        }
    }
}

impl Stores {
    /// Ends the log's writer.
    pub(crate) async fn close(&self) {
        let log = Arc::clone(&self.log);
        let _ = tokio::task::spawn_blocking(move || log.close()).await;
    }
}

/// What opening gives, before anything runs.
struct Opening {
    opened: Opened,
    snapshots: SledSnapshots,
    guard: DiskGuard,
}

impl Opening {
    /// `None` when another process has the directory open, and the caller is `patient`: that one may be about to end.
    fn open(
        path: &Path,
        node_id: NodeId,
        runtime: Arc<dyn Runtime>,
        log: LogOptions,
        patient: bool,
    ) -> Result<Option<Self>, RunError> {
        // A full disk: the reserve must be given back before anything else can be opened. A directory without one
        // is new, and must be empty when it is made a node's.
        let early = path.join(DiskGuard::RESERVE_FILE).exists().then(|| guard(path)).transpose()?;
        let opened = match Directory::open(path, node_id, Arc::new(SystemFiles), runtime, log) {
            Err(OpenError::Locked { .. }) if patient => return Ok(None),
            opened => opened.map_err(refused)?,
        };
        let guard = early.map_or_else(|| guard(path), Ok)?;
        let snapshots = SledSnapshots::open(&opened.directory.snapshots()).map_err(snapshots_refused)?;
        check_snapshot(&opened, &snapshots)?;
        Ok(Some(Self { opened, snapshots, guard }))
    }

    fn into_stores(self) -> Stores {
        let Self { opened, snapshots, guard } = self;
        let level = Arc::new(AtomicU8::new(level_byte(guard.level())));
        let marker = Arc::clone(opened.directory.marker());
        let directory = NodeDirectory { marker: Arc::clone(&marker), level: Arc::clone(&level) };
        Stores {
            directory_id: opened.directory.id(),
            log: opened.log,
            snapshots: Arc::new(MarkedSnapshots { snapshots: Arc::new(snapshots), marker }),
            directory: Arc::new(directory),
            _space: AbortOnDropHandle::new(tokio::spawn(watch_space(guard, level))),
        }
    }
}

fn guard(path: &Path) -> Result<DiskGuard, RunError> {
    let source = Arc::new(FileSystemSpace::new(PathBuf::from(path)));
    DiskGuard::open(path, SpaceLimits::default(), source)
        .map_err(|error| RunError::Failed(format!("cannot look at the disk of {}: {error}", path.display())))
}

fn refused(error: OpenError) -> RunError {
    match error {
        OpenError::Io { .. } => RunError::Failed(error.to_string()),
        _ => RunError::Refused(error.to_string()),
    }
}

fn snapshots_refused(error: SnapshotError) -> RunError {
    match error {
        SnapshotError::Io { .. } => RunError::Failed(error.to_string()),
        _ => RunError::Refused(error.to_string()),
    }
}

/// The snapshots must reach what was purged from the log, or entries are lost. With one older than the newest that was
/// ever durable (which somebody moved away, being damaged) the log behind it leads to the same tables.
fn check_snapshot(opened: &Opened, snapshots: &SledSnapshots) -> Result<(), RunError> {
    let newest = snapshots.latest().map(|meta| meta.last);
    let (log, marked) = (opened.log.state(), opened.directory.marker().get().snapshot);
    let show = |id: Option<LogId>| id.map_or("none".to_owned(), |id| id.to_string());
    let directory = opened.directory.snapshots();
    if !lead_on(newest, &log, marked) {
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

/// Whether a snapshot and the log hold all that this node has ever had. `marked`: the newest snapshot that was durable.
fn lead_on(newest: Option<LogId>, log: &LogState, marked: Option<LogId>) -> bool {
    newest >= log.purged && newest.max(log.last) >= marked
}

/// Looks at the free space until it is dropped.
async fn watch_space(mut guard: DiskGuard, level: Arc<AtomicU8>) {
    loop {
        sleep(LOOK_AT_SPACE).await;
        let looked = tokio::task::spawn_blocking(move || {
            let sampled = guard.sample();
            (guard, sampled)
        });
        let Ok((back, sampled)) = looked.await else { return };
        guard = back;
        match sampled {
            Ok(status) => {
                let byte = level_byte(status.level);
                if level.swap(byte, Ordering::Relaxed) != byte {
                    tracing::warn!(level = %status.level, free_bytes = status.free_bytes, "room on the disk");
                }
            }
            Err(error) => tracing::warn!(%error, "the free space cannot be looked at"),
        }
    }
}

fn level_byte(level: SpaceLevel) -> u8 {
    match level {
        SpaceLevel::Ok => 0,
        SpaceLevel::Low => 1,
        SpaceLevel::Min => 2,
    }
}

/// What consensus asks of the directory.
struct NodeDirectory {
    marker: Arc<MarkerFile>,
    level: Arc<AtomicU8>,
}

impl raft::Directory for NodeDirectory {
    fn cluster_id(&self) -> Option<u128> {
        self.marker.cluster_id()
    }

    fn save_cluster_id(&self, cluster_id: u128) -> io::Result<()> {
        self.marker.save_cluster_id(cluster_id)
    }

    fn truncated_tail(&self) -> Option<Cut> {
        self.marker.cut()
    }

    fn forget_truncated_tail(&self) -> io::Result<()> {
        self.marker.forget_cut()
    }

    fn space(&self) -> SpaceLevel {
        match self.level.load(Ordering::Relaxed) {
            0 => SpaceLevel::Ok,
            1 => SpaceLevel::Low,
            _ => SpaceLevel::Min,
        }
    }
}

/// Snapshots whose newest is noted in the marker, so that a directory that lost it says so.
struct MarkedSnapshots {
    snapshots: Arc<SledSnapshots>,
    marker: Arc<MarkerFile>,
}

impl Snapshots for MarkedSnapshots {
    fn latest(&self) -> Option<SnapshotMeta> {
        self.snapshots.latest()
    }

    fn all(&self) -> Vec<SnapshotMeta> {
        self.snapshots.all()
    }

    fn begin(&self, meta: SnapshotMeta) -> io::Result<Box<dyn SnapshotWriter>> {
        let last = meta.last;
        let writer = self.snapshots.begin(meta)?;
        Ok(Box::new(MarkedWriter { writer, marker: Arc::clone(&self.marker), last }))
    }

    fn chunk(&self, last: LogId, number: u32) -> io::Result<Option<bytes::Bytes>> {
        self.snapshots.chunk(last, number)
    }
}

struct MarkedWriter {
    writer: Box<dyn SnapshotWriter>,
    marker: Arc<MarkerFile>,
    last: LogId,
}

impl SnapshotWriter for MarkedWriter {
    fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.chunk(bytes)
    }

    fn commit(self: Box<Self>) -> io::Result<()> {
        self.writer.commit()?;
        self.marker.set_snapshot(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(index: u64) -> Option<LogId> {
        Some(LogId { term: 1, index })
    }

    #[test]
    fn a_snapshot_and_the_log_must_reach_what_was_ever_there() {
        let log = |purged, last| LogState { purged, last, ..LogState::default() };
        assert!(lead_on(None, &log(None, None), None));
        assert!(lead_on(at(40), &log(at(20), at(45)), at(40)));
        assert!(lead_on(at(20), &log(at(20), at(45)), at(40)), "the log behind the older one");
        assert!(lead_on(at(40), &log(at(20), at(30)), at(40)), "received, and not yet purged up to it");
        assert!(!lead_on(at(20), &log(at(30), at(45)), at(40)), "a gap");
        assert!(!lead_on(at(20), &log(at(20), at(30)), at(40)), "the log never had what was received");
        assert!(!lead_on(None, &log(at(20), at(45)), at(40)));
    }
}
