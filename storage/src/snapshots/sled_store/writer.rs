//! Writes one snapshot: chunks, pointer, proof by reading back, seal.

use super::Shared;
use super::database::{Database, io_error};
use super::directories;
use super::record::{POINTER_KEY, Pointer, chunk_key, encode_checked, encode_chunk};
use super::seal::{Seal, sync_files};
use super::sealed_snapshot::{SealedSnapshot, read_back};
use crate::snapshots::{SnapshotError, SnapshotMeta, SnapshotWriter, check_chunk_size};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// How often a finished database is opened, read and closed until its files stay as they are. sled tidies up when
/// it opens what it wrote; four times were seen to be enough.
const SETTLE_ROUNDS_MAX: u32 = 10;

pub(super) struct Writer {
    shared: Arc<Shared>,
    directory: PathBuf,
    sequence: u64,
    meta: SnapshotMeta,
    chunks: u32,
    bytes: u64,
    hasher: Xxh3,
    /// `None` once it was closed for good.
    database: Option<Database>,
}

impl Writer {
    pub(super) fn begin(
        shared: Arc<Shared>,
        sequence: u64,
        meta: SnapshotMeta,
    ) -> Result<Self, SnapshotError> {
        let mut writer = Self {
            directory: directories::unfinished(&shared.directory, sequence),
            shared,
            sequence,
            meta,
            chunks: 0,
            bytes: 0,
            hasher: Xxh3::new(),
            database: None,
        };
        // From here on dropping the writer removes what it began.
        writer.database = Some(Database::open(&writer.directory)?);
        Ok(writer)
    }

    fn finish(&mut self) -> Result<Pointer, SnapshotError> {
        let Some(database) = self.database.take() else {
            let source = io::Error::other("an earlier write failed");
            return Err(io_error("finish the snapshot", &self.directory, source));
        };
        // The pointer says that the chunks are there, so they must be on stable storage before it.
        database.sync()?;
        let pointer = Pointer {
            meta: self.meta.clone(),
            chunks: self.chunks,
            bytes: self.bytes,
            hash: self.hasher.digest128(),
        };
        let record = encode_checked("pointer record", &pointer).map_err(|reason| {
            io_error("write the pointer record", &self.directory, io::Error::other(reason))
        })?;
        database.put(POINTER_KEY, record)?;
        database.sync()?;
        drop(database);
        settle(&self.directory, &pointer)?.write(&self.directory)?;
        Ok(pointer)
    }
}

impl SnapshotWriter for Writer {
    fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        check_chunk_size(bytes)?;
        let next = self.chunks.checked_add(1).ok_or_else(|| io::Error::other("too many chunks"))?;
        let Some(database) = &self.database else {
            return Err(io::Error::other("an earlier write of this snapshot failed"));
        };
        let put = database.put(&chunk_key(self.chunks), encode_chunk(self.chunks, bytes));
        if let Err(error) = put {
            self.database = None;
            return Err(error.into());
        }
        self.hasher.update(bytes);
        self.chunks = next;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn commit(mut self: Box<Self>) -> io::Result<()> {
        let pointer = self.finish()?;
        let finished = directories::finish(&self.directory)?;
        self.shared.prune(Some(SealedSnapshot::new(finished, self.sequence, pointer)));
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.database = None;
        if !self.directory.exists() {
            return; // It was finished.
        }
        if let Err(error) = directories::remove(&self.directory) {
            tracing::warn!("{error}; it is tried again at the next start");
        }
    }
}

/// Opens, reads back and closes the database until doing so changes none of its files. What is sealed then is what
/// every later reader leaves behind, whenever it is interrupted; and a snapshot counts only after it was read whole.
fn settle(directory: &Path, pointer: &Pointer) -> Result<Seal, SnapshotError> {
    let mut before = None;
    for _ in 0..SETTLE_ROUNDS_MAX {
        let database = Database::open(directory)?;
        read_back(&database, directory, pointer)?;
        drop(database);
        let now = Seal::of(directory)?;
        if before.as_ref() == Some(&now) {
            sync_files(directory)?;
            return Ok(now);
        }
        before = Some(now);
    }
    let source = io::Error::other("sled keeps on changing files that are only read");
    Err(io_error("seal the snapshot", directory, source))
}
