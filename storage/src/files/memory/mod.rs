//! Files in memory that behave as a disk does when the power goes: what was not synced may be gone, whole, in
//! part, or out of order. Everything is decided by a seed, so a failure can be repeated.

mod disk;
mod inode;

pub use disk::Fault;

use super::{File, Files, Lock};
use crate::split_mix::SplitMix;
use disk::{Disk, NameChange, is_root};
use inode::{DataChange, Inode};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A file system in memory. Clones are the same file system.
#[derive(Clone, Default)]
pub struct MemoryFiles(Arc<Mutex<Disk>>);

struct MemoryFile {
    disk: Arc<Mutex<Disk>>,
    inode: usize,
    boot: u64,
}

struct MemoryLock {
    disk: Arc<Mutex<Disk>>,
    path: PathBuf,
    boot: u64,
}

impl MemoryFiles {
    /// An empty file system.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many operations that change anything (or sync) were made so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        lock(&self.0).operations
    }

    /// Lets an operation fail: the `number`th from the beginning, as [`MemoryFiles::operations`] counts.
    pub fn fail_at(&self, number: u64, fault: Fault) {
        lock(&self.0).faults.insert(number, fault);
    }

    /// Limits the bytes that all files may take together; `None` lifts the limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        lock(&self.0).capacity = bytes;
    }

    /// The power goes and comes back. What was synced is there; of the rest, the seed decides. All handles and
    /// locks of before are dead.
    pub fn power_cut(&self, seed: u64) {
        let mut random = SplitMix::new(seed);
        let mut disk = lock(&self.0);
        for inode in &mut disk.inodes {
            inode.power_cut(&mut random);
        }
        disk.lose_names(&mut random);
        disk.restart();
    }

    /// The process dies and another starts: everything written is there, synced or not. All handles and locks of
    /// before are dead.
    pub fn kill(&self) {
        lock(&self.0).restart();
    }

    /// The bytes of a file, as a process sees them.
    #[must_use]
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let disk = lock(&self.0);
        disk.names.get(path).map(|&inode| disk.inodes[inode].bytes.clone())
    }

    /// Puts a file there, durably, as damage or an operator's copy would.
    pub fn put(&self, path: &Path, bytes: Vec<u8>) {
        let mut disk = lock(&self.0);
        let inode = Inode { durable: bytes.clone(), bytes, pending: Vec::new() };
        disk.inodes.push(inode);
        let number = disk.inodes.len() - 1;
        disk.names.insert(path.into(), number);
        disk.durable.insert(path.into(), number);
    }

    /// A copy of the whole file system as it is now.
    #[must_use]
    pub fn copy(&self) -> Self {
        let copy = Self::new();
        let (disk, mut other) = (lock(&self.0), lock(&copy.0));
        for (path, &inode) in &disk.names {
            let bytes = disk.inodes[inode].bytes.clone();
            other.inodes.push(Inode { durable: bytes.clone(), bytes, pending: Vec::new() });
            let number = other.inodes.len() - 1;
            other.names.insert(path.clone(), number);
            other.durable.insert(path.clone(), number);
        }
        other.dirs.clone_from(&disk.dirs);
        other.durable_dirs.clone_from(&disk.dirs);
        drop(other);
        copy
    }

    fn handle(&self, disk: &Disk, inode: usize) -> Arc<dyn File> {
        Arc::new(MemoryFile { disk: Arc::clone(&self.0), inode, boot: disk.boot })
    }
}

impl fmt::Debug for MemoryFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryFiles").field("files", &lock(&self.0).names.len()).finish()
    }
}

impl fmt::Debug for MemoryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryFile").field(&self.inode).finish()
    }
}

impl Files for MemoryFiles {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let mut disk = lock(&self.0);
        if disk.dirs.contains(dir) {
            return Ok(());
        }
        disk.operation()?;
        for part in dir.ancestors() {
            // The root is always there.
            if !is_root(part) && disk.dirs.insert(part.into()) {
                disk.pending.push(NameChange::Dir(part.into()));
            }
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let disk = lock(&self.0);
        disk.powered()?;
        if !disk.dirs.contains(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let children = disk.names.keys().chain(&disk.dirs).filter(|path| path.parent() == Some(dir));
        let names = children.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        Ok(names.collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut disk = lock(&self.0);
        disk.operation()?;
        if disk.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !path.parent().is_some_and(|dir| disk.dirs.contains(dir)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        disk.inodes.push(Inode::default());
        let inode = disk.inodes.len() - 1;
        disk.names.insert(path.into(), inode);
        disk.pending.push(NameChange::Create(path.into(), inode));
        Ok(self.handle(&disk, inode))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let disk = lock(&self.0);
        disk.powered()?;
        let inode = disk.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.handle(&disk, *inode))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = lock(&self.0);
        disk.operation()?;
        let inode = disk.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        disk.names.insert(to.into(), inode);
        disk.pending.push(NameChange::Rename(from.into(), to.into()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut disk = lock(&self.0);
        disk.operation()?;
        disk.names.remove(path).ok_or(io::ErrorKind::NotFound)?;
        disk.pending.push(NameChange::Remove(path.into()));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut disk = lock(&self.0);
        disk.operation()?;
        let pending = std::mem::take(&mut disk.pending);
        for change in pending {
            if change.dir() == Some(dir) {
                disk.make_durable(change);
            } else {
                disk.pending.push(change);
            }
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        let mut disk = lock(&self.0);
        disk.powered()?;
        if !disk.locks.insert(path.into()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Lock::new(MemoryLock { disk: Arc::clone(&self.0), path: path.into(), boot: disk.boot }))
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        let mut disk = lock(&self.disk);
        if disk.boot == self.boot {
            disk.locks.remove(&self.path);
        }
    }
}

impl File for MemoryFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut disk = self.alive()?;
        disk.powered()?;
        let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let outcome = disk.operation().and_then(|()| disk.has_room(self.inode, offset + bytes.len()));
        // An operation that fails may have written a part.
        let written = if outcome.is_ok() { bytes } else { &bytes[..bytes.len() / 2] };
        disk.inodes[self.inode].write(offset, written);
        outcome
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let disk = self.alive()?;
        disk.powered()?;
        let bytes = &disk.inodes[self.inode].bytes;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let count = buffer.len().min(bytes.len() - from);
        buffer[..count].copy_from_slice(&bytes[from..from + count]);
        Ok(count)
    }

    fn length(&self) -> io::Result<u64> {
        let disk = self.alive()?;
        disk.powered()?;
        Ok(disk.inodes[self.inode].bytes.len() as u64)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        if length <= self.length()? {
            return Ok(());
        }
        self.set_length(length)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut disk = self.alive()?;
        disk.operation()?;
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
        disk.has_room(self.inode, length)?;
        let inode = &mut disk.inodes[self.inode];
        inode.bytes.resize(length, 0);
        inode.pending.push(DataChange::Length(length));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.alive()?;
        disk.operation()?;
        disk.inodes[self.inode].sync();
        Ok(())
    }
}

impl MemoryFile {
    fn alive(&self) -> io::Result<MutexGuard<'_, Disk>> {
        let disk = lock(&self.disk);
        if disk.boot == self.boot { Ok(disk) } else { Err(io::Error::other("handle of before the crash")) }
    }
}

fn lock(disk: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}
