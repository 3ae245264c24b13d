//! What consensus asks of the data directory.

use std::io;
use storage::disk::SpaceLevel;
use storage::log_place::TruncatedTail;
use storage::marker::MarkerFile;

/// What consensus asks of the data directory beside the log and the snapshots.
pub trait Directory: Send + Sync + 'static {
    /// Random id of the cluster that this directory belongs to; `None` before the bootstrap.
    fn cluster_id(&self) -> Option<u128>;

    /// Keeps the cluster id for good. Durable when it returns; called once in the life of a directory. May block.
    ///
    /// # Errors
    /// It could not be made durable; then the node does not join.
    fn save_cluster_id(&self, cluster_id: u128) -> io::Result<()>;

    /// The tail of the log that was truncated when the directory was opened, until
    /// [`Directory::forget_truncated_tail`]. Handshakes carry whether there is one. Called often: answer from memory.
    fn truncated_tail(&self) -> Option<TruncatedTail> {
        None
    }

    /// The node has caught up since. May block.
    ///
    /// # Errors
    /// It could not be made durable; then the next start reports the truncated tail again.
    fn forget_truncated_tail(&self) -> io::Result<()> {
        Ok(())
    }

    /// How much space the disk has left. At `Low` a leader refuses commands and transfers leadership, at `Min` the node
    /// takes no entries. Called often: answer from memory.
    fn space(&self) -> SpaceLevel {
        SpaceLevel::Ok
    }
}

/// The marker file knows everything but the space.
impl Directory for MarkerFile {
    fn cluster_id(&self) -> Option<u128> {
        self.get().cluster_id
    }

    fn save_cluster_id(&self, cluster_id: u128) -> io::Result<()> {
        self.set_cluster_id(cluster_id)
    }

    fn truncated_tail(&self) -> Option<TruncatedTail> {
        self.get().truncated_tail
    }

    fn forget_truncated_tail(&self) -> io::Result<()> {
        MarkerFile::forget_truncated_tail(self)
    }
}
