//! One sled database, holding one snapshot. The only file that calls sled.

use super::guard::{Failed, guarded};
use crate::snapshots::SnapshotError;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// sled's segments, bytes. A value or page above a quarter of this goes to a file of its own that sled never
/// syncs; the largest page (17 chunks, then it splits: 1.1 MiB) stays below. Larger ones cost memory: sled allocates
/// several buffers of this size.
const SEGMENT_BYTES: usize = 8 << 20;

/// sled's page cache, bytes. A snapshot is written and read once, in order.
const CACHE_BYTES: u64 = 4 << 20;

/// How often a lock that is held is tried again, and the pause between: 1 s in all. sled's own threads may hold
/// the file for a moment after a database was closed.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// An open database.
#[derive(Debug)]
pub(super) struct Database {
    directory: PathBuf,
    /// `None` only while it is dropped.
    sled: Option<sled::Db>,
    /// sled's data file, to sync it: sled's own flush does not (docs/decisions/002).
    data: File,
}

impl Database {
    /// Opens the database in a directory, which is created if it is missing.
    pub(super) fn open(directory: &Path) -> Result<Self, SnapshotError> {
        let config = sled::Config::new()
            .path(directory)
            .segment_size(SEGMENT_BYTES)
            .mode(sled::Mode::LowSpace)
            .cache_capacity(CACHE_BYTES)
            .flush_every_ms(None);
        let sled = retry_locked(directory, || {
            guarded(|| config.open()).map_err(|failed| refused("open the snapshot", directory, failed))
        })?;
        let data = File::open(directory.join("db"));
        let data = data.map_err(|source| io_error("open the snapshot's data file", directory, source))?;
        Ok(Self { directory: directory.to_owned(), sled: Some(sled), data })
    }

    /// Stores a value.
    pub(super) fn put(&self, key: &[u8], value: Vec<u8>) -> Result<(), SnapshotError> {
        self.call("write the snapshot", |sled| sled.insert(key, value).map(|_| ()))
    }

    /// Reads a value.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<sled::IVec>, SnapshotError> {
        self.call("read the snapshot", |sled| sled.get(key))
    }

    /// How many values there are.
    pub(super) fn count(&self) -> Result<usize, SnapshotError> {
        self.call("count the snapshot's chunks", |sled| {
            sled.iter().keys().try_fold(0, |count, key| key.map(|_| count + 1))
        })
    }

    /// Brings all that was put to stable storage.
    pub(super) fn sync(&self) -> Result<(), SnapshotError> {
        self.call("flush the snapshot", |sled| sled.flush().map(|_| ()))?;
        self.data.sync_data().map_err(|source| io_error("sync the snapshot", &self.directory, source))
    }

    fn call<T>(
        &self,
        attempt: &'static str,
        call: impl FnOnce(&sled::Db) -> sled::Result<T>,
    ) -> Result<T, SnapshotError> {
        let Some(sled) = &self.sled else {
            let source = io::Error::other("the database is closed");
            return Err(io_error(attempt, &self.directory, source));
        };
        guarded(|| call(sled)).map_err(|failed| refused(attempt, &self.directory, failed))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // sled flushes when it is dropped, so this may panic like any other call.
        let sled = self.sled.take();
        let dropped = guarded(|| {
            drop(sled);
            Ok(())
        });
        if let Err(failed) = dropped {
            let error = refused("close the snapshot", &self.directory, failed);
            tracing::warn!("{error}");
        }
    }
}

/// Tries again for a second while a lock is held.
pub(super) fn retry_locked<T>(
    directory: &Path,
    mut attempt: impl FnMut() -> Result<T, SnapshotError>,
) -> Result<T, SnapshotError> {
    for _ in 0..LOCK_TRIES {
        match attempt() {
            Err(SnapshotError::Locked { .. }) => pause(),
            other => return other,
        }
    }
    Err(SnapshotError::Locked { directory: directory.to_owned() })
}

#[allow(
    clippy::disallowed_methods,
    reason = "a file lock cannot be awaited, and callers are where blocking is allowed"
)]
fn pause() {
    std::thread::sleep(LOCK_PAUSE);
}

fn refused(attempt: &'static str, directory: &Path, failed: Failed) -> SnapshotError {
    let damaged = |reason: String| SnapshotError::Damaged { directory: directory.to_owned(), reason };
    match failed {
        Failed::Panicked(message) => damaged(format!("sled gave up ({message}) trying to {attempt}")),
        Failed::Error(sled::Error::Io(source))
            if source.to_string().starts_with("could not acquire lock") =>
        {
            SnapshotError::Locked { directory: directory.to_owned() }
        }
        Failed::Error(sled::Error::Io(source)) => io_error(attempt, directory, source),
        Failed::Error(error) => damaged(format!("sled says \"{error}\" trying to {attempt}")),
    }
}

/// An error of the operating system.
pub(super) fn io_error(attempt: &'static str, directory: &Path, source: io::Error) -> SnapshotError {
    SnapshotError::Io { attempt, directory: directory.to_owned(), source }
}
