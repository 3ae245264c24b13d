//! A node's data directory. Opening locks it and checks that it is whole and belongs to this node.
//!
//! ```text
//! <data>/lock        held while a process has it open
//! <data>/marker      which node it belongs to and what must be in it (see [`crate::marker`])
//! <data>/log/        segments of the log, copies of torn tails
//! <data>/snapshots/  snapshots
//! <data>/reserve     space that is given back when the disk is full
//! ```

pub use crate::open_error::OpenError;

use crate::files::{Files, Lock};
use crate::log::{FileLog, LogEnvironment, LogOptions};
use crate::log_place::{LogPlace, TruncatedTail};
use crate::marker::{self, Marker, MarkerError, MarkerFile};
use crate::open_error::RUNBOOK_DIRECTORY;
use crate::runtime::Runtime;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Folder of the log.
pub const LOG_DIR: &str = "log";
/// Folder of the snapshots.
pub const SNAPSHOTS_DIR: &str = "snapshots";
/// File that keeps space for the day that the disk is full.
pub const RESERVE_FILE: &str = "reserve";
const LOCK_FILE: &str = "lock";

/// A data directory that is open. It stays locked until this and the log are dropped.
#[derive(Debug, Clone)]
pub struct Directory {
    path: PathBuf,
    marker: Arc<MarkerFile>,
}

/// What opening gives.
#[derive(Debug)]
pub struct Opened {
    /// The directory.
    pub directory: Directory,
    /// The log.
    pub log: Arc<FileLog>,
    /// A torn tail that was truncated now, or earlier and the node has not caught up since
    /// ([`MarkerFile::forget_truncated_tail`]): this node tells the other nodes of it.
    pub truncated_tail: Option<TruncatedTail>,
    /// The directory was made just now.
    pub created: bool,
}

impl Directory {
    /// Opens a node's data directory, and makes it if there is none.
    ///
    /// # Errors
    /// See [`OpenError`]. But for [`OpenError::Io`], nothing was changed.
    pub fn open(
        path: &Path,
        node_id: u64,
        files: Arc<dyn Files>,
        runtime: Arc<dyn Runtime>,
        options: LogOptions,
    ) -> Result<Opened, OpenError> {
        files.create_dir(path).map_err(OpenError::io("make", path))?;
        let lock = files.lock(&path.join(LOCK_FILE)).map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => OpenError::Locked { path: path.into() },
            _ => OpenError::Io { attempted: "lock", path: path.into(), source },
        })?;
        let (marker, created) = match find_marker(path, node_id, &*files)? {
            Some(marker) => (MarkerFile::existing(Arc::clone(&files), path.into(), lock, marker), false),
            None => (make(path, node_id, &files, lock, &*runtime)?, true),
        };
        // Also an existing one: the process that made it may have been killed before the sync.
        sync_place(path, &*files).map_err(OpenError::io("sync", path))?;
        let (dir, marker) = (path.join(LOG_DIR), Arc::new(marker));
        if marker.get().last_segment == 0 {
            let made = files.create_dir(&dir).and_then(|()| files.sync_dir(path));
            made.map_err(OpenError::io("make", &dir))?;
        }
        let segment_bytes = options.segment_bytes;
        let environment = LogEnvironment { files, dir, marker: Arc::clone(&marker), runtime, segment_bytes };
        let log = FileLog::open(environment, &options)?;
        let directory = Self { path: path.into(), marker };
        let truncated_tail = directory.marker.get().truncated_tail;
        Ok(Opened { directory, log: Arc::new(log), truncated_tail, created })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the snapshots are.
    #[must_use]
    pub fn snapshots(&self) -> PathBuf {
        self.path.join(SNAPSHOTS_DIR)
    }

    /// Random id of this directory.
    #[must_use]
    pub fn id(&self) -> u128 {
        self.marker.get().directory_id
    }

    /// The marker.
    #[must_use]
    pub fn marker(&self) -> &Arc<MarkerFile> {
        &self.marker
    }
}

/// The marker of a directory that is this node's; `None` if nothing is there yet.
fn find_marker(path: &Path, node_id: u64, files: &dyn Files) -> Result<Option<Marker>, OpenError> {
    let refused = |reason: String, advice: String| OpenError::Refused { path: path.into(), reason, advice };
    let lost = || {
        format!(
            "put the directory back from where it was moved, or give this node a new id and an empty directory and \
             run `raft-namesrv members replace` on the cluster (see {RUNBOOK_DIRECTORY})"
        )
    };
    let Some(bytes) = MarkerFile::read(files, path).map_err(OpenError::io("read the marker of", path))?
    else {
        let names = files.list(path).map_err(OpenError::io("list", path))?;
        let foreign = names.iter().find(|name| !is_leftover(name));
        return match foreign {
            None => Ok(None),
            Some(name) => Err(refused(format!("it has {name} but no marker file"), lost())),
        };
    };
    let marker = Marker::decode(&bytes).map_err(|e| match e {
        MarkerError::Damaged => refused(e.to_string(), lost()),
        MarkerError::Format(_) => {
            refused(e.to_string(), "start the version that wrote it, or a later one".to_owned())
        }
    })?;
    if marker.node_id != node_id {
        let reason = format!("it belongs to node {}, and this is node {node_id}", marker.node_id);
        let owner = marker.node_id;
        let advice = format!(
            "start with `--node-id {owner}`, or give node {node_id} a directory of its own with `--data`"
        );
        return Err(refused(reason, advice));
    }
    Ok(Some(marker))
}

/// Syncs the directory and its name.
fn sync_place(path: &Path, files: &dyn Files) -> io::Result<()> {
    files.sync_dir(path)?;
    match path.parent().map(|parent| files.sync_dir(parent)) {
        // This node has made nothing in a parent that it may not even list.
        Some(Err(e)) if e.kind() != io::ErrorKind::PermissionDenied => Err(e),
        _ => Ok(()),
    }
}

/// What may lie in a directory that is new, or whose making was interrupted.
fn is_leftover(name: &str) -> bool {
    [LOCK_FILE, RESERVE_FILE, "lost+found"].contains(&name) || marker::is_marker_leftover(name)
}

fn make(
    path: &Path,
    node_id: u64,
    files: &Arc<dyn Files>,
    lock: Lock,
    runtime: &dyn Runtime,
) -> Result<MarkerFile, OpenError> {
    let directory_id = u128::from(runtime.random_u64()) << 64 | u128::from(runtime.random_u64());
    let marker = Marker {
        node_id,
        directory_id,
        cluster_id: None,
        first_segment: 1,
        last_segment: 0,
        synced: LogPlace::default(),
        snapshot: None,
        truncated_tail: None,
    };
    MarkerFile::create(Arc::clone(files), path.into(), lock, marker).map_err(OpenError::io("make", path))
}
