//! One complete snapshot on disk.

use super::database::Database;
use super::directories;
use super::record::{POINTER_KEY, Pointer, chunk_key, decode_checked, decode_chunk};
use super::seal::Seal;
use crate::snapshots::{SnapshotError, SnapshotReader};
use bytes::Bytes;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use xxhash_rust::xxh3::Xxh3;

/// A sealed snapshot. Its database is open only while it is read.
#[derive(Debug)]
pub(super) struct SealedSnapshot {
    pub(super) directory: PathBuf,
    /// Counts up with each snapshot begun; of two with the same log id the higher one holds.
    pub(super) sequence: u64,
    pub(super) pointer: Pointer,
    reader: Mutex<Reader>,
}

#[derive(Debug)]
enum Reader {
    Closed,
    Open(Database),
}

impl SealedSnapshot {
    /// A snapshot that was just sealed.
    pub(super) fn new(directory: PathBuf, sequence: u64, pointer: Pointer) -> Self {
        Self { directory, sequence, pointer, reader: Mutex::new(Reader::Closed) }
    }

    /// A snapshot that is found on disk: compared with its seal, opened, its pointer read.
    pub(super) fn open(directory: PathBuf, sequence: u64) -> Result<Self, SnapshotError> {
        Seal::check(&directory)?;
        let pointer = read_pointer(&Database::open(&directory)?, &directory)?;
        Ok(Self::new(directory, sequence, pointer))
    }

    /// Deletes the snapshot, which nobody reads any more.
    pub(super) fn remove(&self) -> Result<(), SnapshotError> {
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = Reader::Closed;
        directories::remove(&self.directory)
    }
}

impl SnapshotReader for SealedSnapshot {
    /// After the last chunk the database is closed.
    fn chunk(&self, number: u32) -> io::Result<Option<Bytes>> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        if number >= self.pointer.chunks {
            *reader = Reader::Closed;
            return Ok(None);
        }
        if let Reader::Open(database) = &*reader {
            return Ok(Some(read_chunk(database, &self.directory, number)?));
        }
        Seal::check(&self.directory)?;
        let database = Database::open(&self.directory)?;
        let chunk = read_chunk(&database, &self.directory, number)?;
        *reader = Reader::Open(database);
        Ok(Some(chunk))
    }
}

/// Reads a whole snapshot back and compares it with its pointer.
pub(super) fn read_back(
    database: &Database,
    directory: &Path,
    pointer: &Pointer,
) -> Result<(), SnapshotError> {
    let damaged = |reason| SnapshotError::Damaged { directory: directory.to_owned(), reason };
    if read_pointer(database, directory)? != *pointer {
        return Err(damaged("the pointer record is another than was written".to_owned()));
    }
    let mut hasher = Xxh3::new();
    for number in 0..pointer.chunks {
        hasher.update(&read_chunk(database, directory, number)?);
    }
    if hasher.digest128() != pointer.hash {
        return Err(damaged("the hash over all chunks does not match".to_owned()));
    }
    let expected = usize::try_from(pointer.chunks).unwrap_or(usize::MAX).saturating_add(1);
    let found = database.count()?;
    if found != expected {
        return Err(damaged(format!("there are {found} records instead of {expected}")));
    }
    Ok(())
}

fn read_pointer(database: &Database, directory: &Path) -> Result<Pointer, SnapshotError> {
    let damaged = |reason| SnapshotError::Damaged { directory: directory.to_owned(), reason };
    let value = database.get(POINTER_KEY)?;
    let value = value.ok_or_else(|| damaged("the pointer record is missing".to_owned()))?;
    decode_checked("pointer record", &value).map_err(damaged)
}

fn read_chunk(database: &Database, directory: &Path, number: u32) -> Result<Bytes, SnapshotError> {
    let damaged = |reason| SnapshotError::Damaged { directory: directory.to_owned(), reason };
    let value = database.get(&chunk_key(number))?;
    let value = value.ok_or_else(|| damaged(format!("chunk {number} is missing")))?;
    decode_chunk(number, &value).map(Bytes::copy_from_slice).map_err(damaged)
}
