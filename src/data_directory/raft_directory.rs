//! What consensus asks the data directory for.

use super::disk_space::SharedLevel;
use std::io;
use std::sync::Arc;
use storage::disk::SpaceLevel;
use storage::log_place::TruncatedTail;
use storage::marker::MarkerFile;

/// Answers from the marker file and from the last sample of the free space.
pub(super) struct RaftDirectory {
    marker: Arc<MarkerFile>,
    level: SharedLevel,
}

impl RaftDirectory {
    pub(super) fn new(marker: Arc<MarkerFile>, level: SharedLevel) -> Self {
        Self { marker, level }
    }
}

impl raft::Directory for RaftDirectory {
    fn cluster_id(&self) -> Option<u128> {
        self.marker.cluster_id()
    }

    fn save_cluster_id(&self, cluster_id: u128) -> io::Result<()> {
        self.marker.save_cluster_id(cluster_id)
    }

    fn truncated_tail(&self) -> Option<TruncatedTail> {
        self.marker.truncated_tail()
    }

    fn forget_truncated_tail(&self) -> io::Result<()> {
        self.marker.forget_truncated_tail()
    }

    fn space(&self) -> SpaceLevel {
        self.level.get()
    }
}
