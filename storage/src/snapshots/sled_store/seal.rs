//! The seal of a finished snapshot: name, length and hash of each of its files.
//!
//! Opening a damaged database makes sled cut off what follows the damage and overwrite it, so a snapshot is compared
//! with its seal before sled may touch it.

use super::database::io_error;
use super::record::{decode_checked, encode_checked};
use crate::snapshots::SnapshotError;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

const SEAL: &str = "seal";

/// A seal larger than this is not one, bytes.
const SEAL_BYTES_MAX: u64 = 64 << 10;

/// All regular files of a database, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seal {
    files: Vec<SealedFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SealedFile {
    name: String,
    bytes: u64,
    /// XXH3, 128 bits.
    hash: u128,
}

impl Seal {
    /// What the directory holds now.
    pub(super) fn of(directory: &Path) -> Result<Self, SnapshotError> {
        Self::read_files(directory)
            .map_err(|source| io_error("read the files of the snapshot", directory, source))
    }

    fn read_files(directory: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !entry.file_type()?.is_file() || name == SEAL {
                continue;
            }
            let (bytes, hash) = hash_file(&entry.path())?;
            files.push(SealedFile { name, bytes, hash });
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { files })
    }

    /// Writes the seal next to the files, synced.
    pub(super) fn write(&self, directory: &Path) -> Result<(), SnapshotError> {
        let write = || {
            let bytes = encode_checked("seal", self).map_err(io::Error::other)?;
            let mut file = File::create(directory.join(SEAL))?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            sync_directory(directory)
        };
        write().map_err(|source| io_error("seal the snapshot", directory, source))
    }

    /// Compares the files with the seal.
    pub(super) fn check(directory: &Path) -> Result<(), SnapshotError> {
        let damaged = |reason| SnapshotError::Damaged { directory: directory.to_owned(), reason };
        let mut bytes = Vec::new();
        let file = File::open(directory.join(SEAL));
        match file.and_then(|file| file.take(SEAL_BYTES_MAX).read_to_end(&mut bytes)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged("its seal is missing".to_owned()));
            }
            read => read.map_err(|source| io_error("read the seal", directory, source))?,
        };
        let sealed: Self = decode_checked("seal", &bytes).map_err(damaged)?;
        let found = Self::of(directory)?;
        sealed.difference(&found).map_or(Ok(()), |reason| Err(damaged(reason)))
    }

    /// The first file that is not as it was sealed.
    fn difference(&self, found: &Self) -> Option<String> {
        for file in &self.files {
            let name = &file.name;
            match found.files.iter().find(|other| other.name == *name) {
                None => return Some(format!("file {name} is missing")),
                Some(other) if other.bytes != file.bytes => {
                    return Some(format!("file {name} has {} bytes instead of {}", other.bytes, file.bytes));
                }
                Some(other) if other.hash != file.hash => {
                    return Some(format!("file {name} has other content than was written"));
                }
                Some(_) => {}
            }
        }
        let foreign = found.files.iter().find(|file| !self.files.iter().any(|own| own.name == file.name));
        foreign.map(|file| format!("file {} does not belong there", file.name))
    }
}

/// Syncs every file of a directory, and the directory.
pub(super) fn sync_files(directory: &Path) -> Result<(), SnapshotError> {
    let sync = || {
        for entry in fs::read_dir(directory)? {
            File::open(entry?.path())?.sync_all()?;
        }
        sync_directory(directory)
    };
    sync().map_err(|source| io_error("sync the snapshot", directory, source))
}

/// Syncs the names in a directory.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn hash_file(path: &Path) -> io::Result<(u64, u128)> {
    let mut file = File::open(path)?;
    let mut hasher = Xxh3::new();
    let mut buffer = vec![0; 256 << 10];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((bytes, hasher.digest128()));
        }
        hasher.update(buffer.get(..read).unwrap_or_default());
        bytes += read as u64;
    }
}
