//! Files through a small trait, so that a simulation can lose power, fill the disk and fail any operation.
//!
//! [`SystemFiles`] is the real thing; [`MemoryFiles`] models what a disk keeps at a power cut.

mod memory;
mod system;

pub use memory::{Fault, MemoryFiles};
pub use system::SystemFiles;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A file system, as the log and the marker use it.
pub trait Files: Send + Sync + fmt::Debug + 'static {
    /// Makes a directory and its parents; one that exists is fine. Survives a power cut after [`Files::sync_dir`] of
    /// its parent.
    ///
    /// # Errors
    /// It cannot be made.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Names in a directory, sorted.
    ///
    /// # Errors
    /// `NotFound`, or it cannot be read.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Makes a new, empty file.
    ///
    /// # Errors
    /// `AlreadyExists`, or it cannot be made.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens a file that exists.
    ///
    /// # Errors
    /// `NotFound`, or it cannot be opened for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Renames a file, replacing what has the new name. Survives a power cut after [`Files::sync_dir`].
    ///
    /// # Errors
    /// The file system refuses.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Unlinks a file; handles that are open keep reading it. Survives a power cut after [`Files::sync_dir`].
    ///
    /// # Errors
    /// `NotFound`, or the file system refuses.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes creations, renames and removals in a directory survive a power cut.
    ///
    /// # Errors
    /// The disk fails.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes the exclusive lock of a file (made if missing) until the guard is dropped or the process ends. Waits
    /// up to a second for another holder.
    ///
    /// # Errors
    /// `WouldBlock` when another process holds it.
    fn lock(&self, path: &Path) -> io::Result<Lock>;
}

/// A lock that is held; dropping it lets go.
pub struct Lock {
    _guard: Box<dyn Send + Sync>,
}

impl Lock {
    /// A lock that the drop of `guard` lets go.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self { _guard: Box::new(guard) }
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").finish_non_exhaustive()
    }
}

/// An open file.
pub trait File: Send + Sync + fmt::Debug + 'static {
    /// Writes all bytes at an offset, growing the file as needed.
    ///
    /// # Errors
    /// The disk is full or fails; how much was written is unknown.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Reads up to the buffer's length at an offset; 0 at the end of the file.
    ///
    /// # Errors
    /// The disk fails.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Length, bytes.
    ///
    /// # Errors
    /// The disk fails.
    fn length(&self) -> io::Result<u64>;

    /// Makes the file at least this long, with its space reserved; new bytes read as zero.
    ///
    /// # Errors
    /// `StorageFull`, or the disk fails.
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Cuts the file, or grows it without reserving space.
    ///
    /// # Errors
    /// The disk fails.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Makes what was written, and the length, survive a power cut (`fdatasync`).
    ///
    /// # Errors
    /// The disk fails; what was written since the last success may be lost for good.
    fn sync(&self) -> io::Result<()>;
}

/// Reads exactly `length` bytes at an offset.
///
/// # Errors
/// `UnexpectedEof` when the file ends before, or the disk fails.
pub fn read_exact_at(file: &dyn File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(bytes)
}
