//! Names of a snapshot's directory through its life. Each step is one rename, so that no crash turns one into damage.
//!
//! `<sequence>.new` while it is written, `<sequence>` once it counts, `<sequence>.old` while it is removed.

use super::database::io_error;
use super::seal::sync_directory;
use crate::snapshots::SnapshotError;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const NEW: &str = "new";
const OLD: &str = "old";

/// Where a snapshot is written.
pub(super) fn unfinished(root: &Path, sequence: u64) -> PathBuf {
    root.join(format!("{sequence:016x}.{NEW}"))
}

/// Gives a finished and synced snapshot its lasting name, synced: from here on it counts.
pub(super) fn finish(unfinished: &Path) -> Result<PathBuf, SnapshotError> {
    let finished = unfinished.with_extension("");
    fs::rename(unfinished, &finished)
        .and_then(|()| sync_parent(&finished))
        .map_err(|source| io_error("make the snapshot count", &finished, source))?;
    Ok(finished)
}

/// Deletes a snapshot, finished or not. One that is half deleted counts no more.
pub(super) fn remove(directory: &Path) -> Result<(), SnapshotError> {
    let remove = || {
        let mut doomed = directory.to_owned();
        if directory.extension().is_none() {
            doomed.set_extension(OLD);
            fs::rename(directory, &doomed)?;
            sync_parent(&doomed)?;
        }
        fs::remove_dir_all(&doomed)
    };
    remove().map_err(|source| io_error("remove a snapshot that is no longer needed", directory, source))
}

/// What a directory of snapshots holds.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Snapshots that count, in the order in which they were begun.
    pub(super) finished: Vec<(u64, PathBuf)>,
    /// What a crash left behind.
    pub(super) leftovers: Vec<PathBuf>,
    /// The sequence number after the highest.
    pub(super) sequence_next: u64,
}

/// Looks for snapshots. Other files are left alone.
pub(super) fn find(root: &Path) -> Result<Found, SnapshotError> {
    read(root).map_err(|source| io_error("list the snapshots", root, source))
}

fn read(root: &Path) -> io::Result<Found> {
    let mut found = Found::default();
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| stem.len() == 16);
        let Some(sequence) = stem.and_then(|stem| u64::from_str_radix(stem, 16).ok()) else {
            continue;
        };
        match path.extension().map(|extension| extension.to_string_lossy()).as_deref() {
            None => found.finished.push((sequence, path)),
            Some(NEW | OLD) => found.leftovers.push(path),
            Some(_) => continue,
        }
        found.sequence_next = found.sequence_next.max(sequence.saturating_add(1));
    }
    found.finished.sort_unstable();
    Ok(found)
}

fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), sync_directory)
}
