//! Whether this node's disk takes writes.

use crate::api::Directory;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use storage::disk::SpaceLevel;

/// Whether this node's disk takes writes. The disk watch sets it; the batcher and the RPC handlers read it.
pub(crate) struct DiskState {
    directory: Arc<dyn Directory>,
    hung: AtomicBool,
}

impl DiskState {
    /// A disk that answers.
    pub(crate) fn new(directory: Arc<dyn Directory>) -> Self {
        Self { directory, hung: AtomicBool::new(false) }
    }

    /// Notes whether the disk is hung: a write waits for longer than a few elections take, and a majority writes on.
    /// Gives what was noted before.
    pub(crate) fn set_hung(&self, hung: bool) -> bool {
        self.hung.swap(hung, Ordering::AcqRel)
    }

    /// What was noted last.
    pub(crate) fn is_hung(&self) -> bool {
        self.hung.load(Ordering::Acquire)
    }

    /// The space that is left.
    pub(crate) fn space(&self) -> SpaceLevel {
        self.directory.space()
    }

    /// Why this node, as the leader, appends nothing now.
    pub(crate) fn refuses_appends(&self) -> Option<String> {
        if self.is_hung() {
            return Some("the leader's disk does not answer".into());
        }
        match self.space() {
            SpaceLevel::Ok => None,
            SpaceLevel::Low | SpaceLevel::Min => Some("the leader's disk is nearly full".into()),
        }
    }
}
