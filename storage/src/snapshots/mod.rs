//! Snapshots: whole states at a log id. [`Snapshots`] is what consensus asks of them; [`SledSnapshots`] keeps
//! them on disk, [`MemorySnapshots`] in memory for tests and simulations.

mod error;
mod memory;
pub mod sled_store;

pub use error::{RUNBOOK, SnapshotError};
pub use memory::MemorySnapshots;
pub use sled_store::SledSnapshots;

use crate::LogId;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;

/// Largest chunk of a snapshot, bytes (sled keeps larger values in files that it never syncs).
pub const CHUNK_BYTES_MAX: usize = crate::limits::SNAPSHOT_CHUNK_BYTES_MAX;

/// How many complete snapshots are kept.
pub const KEPT_MAX: usize = 2;

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

/// Keeps the last two snapshots. *Newest* means the highest log id; a second snapshot of the same log id takes
/// the place of the first.
///
/// All calls but `latest`, `all` and `open` may read or write the disk: make them where blocking is allowed.
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

    /// A reader of a complete snapshot. While it lives, newer snapshots do not take away what it reads: a transfer to a
    /// node behind a slow link may last longer than two snapshots are kept.
    ///
    /// # Errors
    /// No such snapshot (`NotFound`: newer ones may have taken its place).
    fn open(&self, last: LogId) -> io::Result<Arc<dyn SnapshotReader>>;
}

/// A complete snapshot that is being read.
pub trait SnapshotReader: Send + Sync {
    /// Chunk `number`, from 0; `None` after the last.
    ///
    /// # Errors
    /// The chunk is damaged (`InvalidData`), or the disk cannot be read.
    fn chunk(&self, number: u32) -> io::Result<Option<Bytes>>;
}

/// A snapshot that is being written. Dropping it without `commit` leaves nothing behind that counts.
pub trait SnapshotWriter: Send {
    /// Adds a chunk of at most [`CHUNK_BYTES_MAX`].
    ///
    /// # Errors
    /// The chunk is too large, or the store cannot be written.
    fn chunk(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the snapshot durable; drops all but the newest two.
    ///
    /// # Errors
    /// The store cannot be written or synced; then the snapshot does not count.
    fn commit(self: Box<Self>) -> io::Result<()>;
}

/// Refuses a chunk that is too large.
fn check_chunk_size(bytes: &[u8]) -> io::Result<()> {
    if bytes.len() > CHUNK_BYTES_MAX {
        let message = format!("a snapshot chunk has {} bytes; the limit is {CHUNK_BYTES_MAX}", bytes.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(())
}

/// That snapshot is not here.
fn no_such_snapshot(last: LogId) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no snapshot at log id {last}"))
}
