//! Why a data directory is not opened: one sentence each, with what to do.

use std::io;
use std::path::PathBuf;

/// What to do when a file of the log is damaged.
pub(crate) const RUNBOOK_DAMAGED_LOG: &str = "docs/runbooks/damaged-log.md";
/// What to do when a data directory is not what it should be.
pub(crate) const RUNBOOK_DIRECTORY: &str = "docs/runbooks/data-directory.md";

/// Why a data directory is not opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("data directory {} is in use by another process: stop that one first, or give this node another --data", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// It is not this node's, not whole, or of another time or version.
    #[error("data directory {} is refused: {reason}; {advice}", path.display())]
    Refused {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        reason: String,
        /// What to do.
        advice: String,
    },
    /// Something that had been on stable storage is not as it was written.
    #[error("{} is damaged at offset {offset}: {reason}; nothing was changed, see {}", file.display(), RUNBOOK_DAMAGED_LOG)]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where in it, bytes.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// The file system failed.
    #[error("cannot {attempted} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        attempted: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl OpenError {
    /// Gives an I/O error its place.
    pub(crate) fn io(attempted: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { attempted, path, source }
    }
}
