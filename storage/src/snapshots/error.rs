//! What can be wrong with a directory of snapshots.

use std::io;
use std::path::PathBuf;

/// Where an operator reads on about damage.
pub const RUNBOOK: &str = "docs/runbooks/damaged-snapshot.md";

/// Snapshots cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// What is on disk is not what was written. Nothing was changed or deleted.
    #[error("the snapshot in {} is damaged: {reason}; nothing was changed; see {RUNBOOK}", directory.display())]
    Damaged {
        /// Directory of the one snapshot.
        directory: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// Another process (or another store of this one) has it open.
    #[error("the snapshots in {} are in use by another process", directory.display())]
    Locked {
        /// The directory.
        directory: PathBuf,
    },
    /// The operating system, or sled on top of it, refused something.
    #[error("cannot {attempt} in {}: {source}", directory.display())]
    Io {
        /// What was attempted.
        attempt: &'static str,
        /// The directory.
        directory: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl From<SnapshotError> for io::Error {
    fn from(error: SnapshotError) -> Self {
        let kind = match &error {
            SnapshotError::Damaged { .. } => io::ErrorKind::InvalidData,
            SnapshotError::Locked { .. } => io::ErrorKind::ResourceBusy,
            SnapshotError::Io { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}
