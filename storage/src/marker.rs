//! The marker: a small synced file that says which node a data directory belongs to and what must be in it.
//!
//! ```text
//! magic [u8; 8] · format u32 · body (bincode) · checksum of all before u64
//! ```
//! It is replaced as a whole: written beside, synced, renamed, the directory synced.

use crate::LogId;
use crate::files::{Files, Lock, read_exact_at};
use crate::log_place::{LogPlace, TruncatedTail};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// Name of the file.
pub const MARKER_FILE: &str = "marker";
/// Format of a data directory.
pub const DIRECTORY_FORMAT: u32 = 1;

const TEMPORARY_FILE: &str = "marker.new";
const MAGIC: [u8; 8] = *b"rnsmark\n";
/// No marker is larger, bytes.
const MARKER_BYTES_MAX: u64 = 64 << 10;

/// What the marker says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// The node that the directory belongs to.
    pub node_id: u64,
    /// Random id of this directory.
    pub directory_id: u128,
    /// The cluster that it belongs to, once that is initialized.
    pub cluster_id: Option<u128>,
    /// First segment of the log that may be there.
    pub first_segment: u64,
    /// Last segment of the log that must be there; 0 before the first is made.
    pub last_segment: u64,
    /// The log is on stable storage at least up to here.
    pub synced: LogPlace,
    /// Last entry of the newest durable snapshot.
    pub snapshot: Option<LogId>,
    /// The last torn tail that was truncated, until [`MarkerFile::forget_truncated_tail`].
    pub truncated_tail: Option<TruncatedTail>,
}

/// Why a marker is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MarkerError {
    /// Not whole.
    #[error("its marker file is empty or damaged")]
    Damaged,
    /// Written by a later version.
    #[error("it has format {0}, and this version reads {DIRECTORY_FORMAT}")]
    Format(u32),
}

impl Marker {
    /// Bytes of the file.
    ///
    /// # Errors
    /// It does not encode.
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        let body = crate::format::encode("marker", self).map_err(io::Error::other)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&DIRECTORY_FORMAT.to_le_bytes());
        bytes.extend_from_slice(&body);
        let checksum = xxh3_64(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        Ok(bytes)
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// See [`MarkerError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, MarkerError> {
        let (content, checksum) = bytes.split_last_chunk::<8>().ok_or(MarkerError::Damaged)?;
        let rest = content.strip_prefix(&MAGIC).ok_or(MarkerError::Damaged)?;
        if xxh3_64(content) != u64::from_le_bytes(*checksum) {
            return Err(MarkerError::Damaged);
        }
        let (format, body) = rest.split_first_chunk::<4>().ok_or(MarkerError::Damaged)?;
        let format = u32::from_le_bytes(*format);
        if format != DIRECTORY_FORMAT {
            return Err(MarkerError::Format(format));
        }
        crate::format::decode("marker", body).map_err(|_| MarkerError::Damaged)
    }
}

/// The marker of a directory that is open.
#[derive(Debug)]
pub struct MarkerFile {
    files: Arc<dyn Files>,
    dir: PathBuf,
    marker: Mutex<Marker>,
    /// Held while the file is replaced: a caller of [`MarkerFile::get`] never waits for the disk.
    replacing: Mutex<()>,
    /// The directory's lock, held as long as this node may write.
    _lock: Lock,
}

impl MarkerFile {
    /// Bytes of the marker in a directory; `None` when there is no such file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(files: &dyn Files, dir: &Path) -> io::Result<Option<Vec<u8>>> {
        let file = match files.open(&dir.join(MARKER_FILE)) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let length = file.length()?.min(MARKER_BYTES_MAX);
        read_exact_at(&*file, 0, usize::try_from(length).unwrap_or(0)).map(Some)
    }

    /// A marker that is in the directory already.
    #[must_use]
    pub fn existing(files: Arc<dyn Files>, dir: PathBuf, lock: Lock, marker: Marker) -> Self {
        Self { files, dir, marker: Mutex::new(marker), replacing: Mutex::new(()), _lock: lock }
    }

    /// Writes a new directory's marker.
    ///
    /// # Errors
    /// The disk fails.
    pub fn create(files: Arc<dyn Files>, dir: PathBuf, lock: Lock, marker: Marker) -> io::Result<Self> {
        replace(&*files, &dir, &marker)?;
        Ok(Self::existing(files, dir, lock, marker))
    }

    /// What it says.
    #[must_use]
    pub fn get(&self) -> Marker {
        self.marker.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes it. Durable when this returns; blocks for two syncs unless nothing changed.
    ///
    /// # Errors
    /// `StorageFull`: the old marker holds. Anything else: the disk fails, and either may hold.
    pub fn update(&self, change: impl FnOnce(&mut Marker)) -> io::Result<()> {
        let _replacing = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.get();
        let mut new = old.clone();
        change(&mut new);
        if new != old {
            replace(&*self.files, &self.dir, &new)?;
            *self.marker.lock().unwrap_or_else(PoisonError::into_inner) = new;
        }
        Ok(())
    }

    /// Notes the cluster that the directory belongs to.
    ///
    /// # Errors
    /// It belongs to another one already, or the disk fails.
    pub fn set_cluster_id(&self, cluster_id: u128) -> io::Result<()> {
        if let Some(known) = self.get().cluster_id.filter(|&known| known != cluster_id) {
            let what =
                format!("the data directory belongs to cluster {known:032x}, not to {cluster_id:032x}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        self.update(|marker| marker.cluster_id = Some(cluster_id))
    }

    /// Notes the newest durable snapshot.
    ///
    /// # Errors
    /// The disk fails.
    pub fn set_snapshot(&self, last: LogId) -> io::Result<()> {
        self.update(|marker| marker.snapshot = Some(last))
    }

    /// The node has caught up since the truncation: it tells the other nodes no more.
    ///
    /// # Errors
    /// The disk fails.
    pub fn forget_truncated_tail(&self) -> io::Result<()> {
        self.update(|marker| marker.truncated_tail = None)
    }
}

fn replace(files: &dyn Files, dir: &Path, marker: &Marker) -> io::Result<()> {
    let (temporary, path) = (dir.join(TEMPORARY_FILE), dir.join(MARKER_FILE));
    match files.remove(&temporary) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let file = files.create(&temporary)?;
    file.write_at(&marker.encode()?, 0)?;
    file.sync()?;
    // From here on a crash may leave either of the two: a full disk is an error like any other.
    let replaced = files.rename(&temporary, &path).and_then(|()| files.sync_dir(dir));
    replaced.map_err(|e| io::Error::other(format!("the marker was not replaced for certain: {e}")))
}

/// Whether a file of a data directory may be there before the marker is.
pub(crate) fn is_marker_leftover(name: &str) -> bool {
    name == TEMPORARY_FILE
}
