//! Snapshots: whole states at a log id. [`Snapshots`] is what consensus asks of them.

use crate::LogId;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::io;

/// Largest chunk of a snapshot, bytes (sled keeps larger values in files that it never syncs).
pub const CHUNK_BYTES_MAX: usize = 64 << 10;

/// Describes a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotMeta {
    /// Last entry that the state contains.
    pub last: LogId,
    /// The membership at that entry, encoded by the consensus crate.
    pub membership: Bytes,
    /// Hash of the state (see `RouteInfo`).
    pub state_hash: u128,
    /// Wall clock when it was made, milliseconds since 1970. Display only.
    pub unix_ms: u64,
}

/// Keeps the last two snapshots.
pub trait Snapshots: Send + Sync + 'static {
    /// The newest complete snapshot.
    fn latest(&self) -> Option<SnapshotMeta>;

    /// All complete snapshots, oldest first (two at most).
    fn all(&self) -> Vec<SnapshotMeta>;

    /// Begins a new snapshot. Nothing of it counts before [`SnapshotWriter::commit`] has returned.
    ///
    /// # Errors
    /// The store cannot be written.
    fn begin(&self, meta: SnapshotMeta) -> io::Result<Box<dyn SnapshotWriter>>;

    /// Chunk `number` of a complete snapshot; `None` after the last.
    ///
    /// # Errors
    /// No such snapshot, or the chunk is damaged.
    fn chunk(&self, last: LogId, number: u32) -> io::Result<Option<Bytes>>;
}

/// A snapshot that is being written. Dropping it without `commit` leaves nothing behind that counts.
pub trait SnapshotWriter: Send {
    /// Adds a chunk of at most [`CHUNK_BYTES_MAX`].
    ///
    /// # Errors
    /// The store cannot be written.
    fn chunk(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the snapshot durable and the newest; drops all but the last two.
    ///
    /// # Errors
    /// The store cannot be written or synced; then the snapshot does not count.
    fn commit(self: Box<Self>) -> io::Result<()>;
}
