//! Snapshots on disk, in sled.
//!
//! ```text
//! <directory>/lock
//! <directory>/<sequence>/       one sled database per snapshot: chunks, then the pointer record
//! <directory>/<sequence>/seal   length and hash of each of its files
//! ```
//!
//! Each snapshot is a database of its own that is written once, sealed and only read afterwards. So nothing that
//! counts is ever overwritten, a snapshot goes by deleting its directory, and damage in one does not reach the other.
//! Why, and what sled does not do by itself: `docs/decisions/002-log-files-and-sled-snapshots.md`.
//!
//! sled reads and writes through its own files, so this store does too; a simulation uses
//! [`MemorySnapshots`](super::MemorySnapshots).

#[cfg(any(test, fuzzing))]
pub(crate) mod checks;
mod database;
mod directories;
mod guard;
mod record;
mod seal;
mod sealed_snapshot;
#[cfg(test)]
mod tests;
mod writer;

use super::{
    KEPT_MAX, SnapshotError, SnapshotMeta, SnapshotReader, SnapshotWriter, Snapshots, no_such_snapshot,
};
use crate::LogId;
use database::{io_error, retry_locked};
use rustix::fs::{FlockOperation, flock};
use sealed_snapshot::SealedSnapshot;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The last two snapshots of a node, in a directory that one process has at a time.
#[derive(Debug, Clone)]
pub struct SledSnapshots {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    state: Mutex<State>,
    /// Held as long as any part of the store lives.
    _lock: File,
}

#[derive(Debug)]
struct State {
    /// Oldest first.
    kept: Vec<Arc<SealedSnapshot>>,
    /// No longer kept, and perhaps still read.
    retired: Vec<Arc<SealedSnapshot>>,
    sequence_next: u64,
}

impl SledSnapshots {
    /// Opens the directory, which is created if it is missing. Snapshots that were never finished are removed; the
    /// others are compared with what was written, before anything of them is touched.
    ///
    /// The caller knows which snapshot must be there (the node's marker, the last purged entry) and compares it with
    /// [`Snapshots::latest`].
    ///
    /// # Errors
    /// A snapshot is damaged, the directory is in use (tried for 1 s), or it cannot be read.
    pub fn open(directory: &Path) -> Result<Self, SnapshotError> {
        let lock = lock(directory)?;
        let found = directories::find(directory)?;
        let kept = found
            .finished
            .into_iter()
            .map(|(sequence, path)| SealedSnapshot::open(path, sequence).map(Arc::new));
        let kept = kept.collect::<Result<Vec<_>, _>>()?;
        for path in found.leftovers {
            tracing::info!("removing {}, which a crash left behind", path.display());
            directories::remove(&path)?;
        }
        let state = State { kept, retired: Vec::new(), sequence_next: found.sequence_next };
        let shared = Shared { directory: directory.to_owned(), state: Mutex::new(state), _lock: lock };
        shared.prune(None);
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Reads every kept snapshot whole.
    ///
    /// # Errors
    /// One is damaged or cannot be read.
    pub fn verify(&self) -> io::Result<()> {
        let kept = self.shared.state().kept.clone();
        for snapshot in kept {
            let mut number = 0;
            while snapshot.chunk(number)?.is_some() {
                number += 1;
            }
        }
        Ok(())
    }
}

impl Snapshots for SledSnapshots {
    fn latest(&self) -> Option<SnapshotMeta> {
        self.shared.state().kept.last().map(|kept| kept.pointer.meta.clone())
    }

    fn all(&self) -> Vec<SnapshotMeta> {
        self.shared.state().kept.iter().map(|kept| kept.pointer.meta.clone()).collect()
    }

    fn begin(&self, meta: SnapshotMeta) -> io::Result<Box<dyn SnapshotWriter>> {
        let sequence = {
            let mut state = self.shared.state();
            let sequence = state.sequence_next;
            state.sequence_next =
                sequence.checked_add(1).ok_or_else(|| io::Error::other("sequence overflow"))?;
            sequence
        };
        let writer = writer::Writer::begin(Arc::clone(&self.shared), sequence, meta)?;
        Ok(Box::new(writer))
    }

    fn open(&self, last: LogId) -> io::Result<Arc<dyn SnapshotReader>> {
        let kept = self.shared.state().kept.iter().find(|kept| kept.pointer.meta.last == last).cloned();
        Ok(kept.ok_or_else(|| no_such_snapshot(last))?)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a snapshot that is durable, if any, and drops those beyond the last two. One that is still read goes with
    /// a later snapshot; what cannot be removed goes at the next start.
    fn prune(&self, added: Option<SealedSnapshot>) {
        let removed = {
            let mut state = self.state();
            state.kept.extend(added.map(Arc::new));
            state.kept.sort_by_key(|kept| (kept.pointer.meta.last, kept.sequence));
            let superseded = prune(&mut state.kept);
            state.retired.extend(superseded);
            // Nobody can begin to read a retired one.
            state.retired.extract_if(.., |retired| Arc::strong_count(retired) == 1).collect::<Vec<_>>()
        };
        for snapshot in removed {
            if let Err(error) = snapshot.remove() {
                tracing::warn!("{error}; it is tried again at the next start");
            }
        }
    }
}

/// Takes out of a sorted list all but the last of one log id, and all but the last two.
fn prune(kept: &mut Vec<Arc<SealedSnapshot>>) -> Vec<Arc<SealedSnapshot>> {
    let mut removed = Vec::new();
    let mut index = 0;
    while index < kept.len() {
        let same = kept.get(index + 1).is_some_and(|next| {
            kept.get(index).is_some_and(|this| this.pointer.meta.last == next.pointer.meta.last)
        });
        if same {
            removed.push(kept.remove(index));
        } else {
            index += 1;
        }
    }
    let surplus = kept.len().saturating_sub(KEPT_MAX);
    removed.extend(kept.drain(..surplus));
    removed
}

/// Takes the directory for this process.
fn lock(directory: &Path) -> Result<File, SnapshotError> {
    let failed = |source| io_error("open the directory of snapshots", directory, source);
    fs::create_dir_all(directory).map_err(failed)?;
    let file = File::options().create(true).truncate(false).write(true).open(directory.join("lock"));
    let file = file.map_err(failed)?;
    retry_locked(directory, || match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(SnapshotError::Locked { directory: directory.to_owned() }),
        Err(errno) => Err(failed(errno.into())),
    })?;
    Ok(file)
}
