//! Files in memory that behave as a disk does when the power goes: what was not synced may be gone, whole, in
//! part, or out of order. Everything is decided by a seed, so a failure can be repeated.

use super::{File, Files, Lock};
use crate::split_mix::SplitMix;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A write survives a power cut in units of this size.
const SECTOR_BYTES: usize = 512;

/// What happens at an operation that was chosen to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// That operation fails with this error; a write may have happened in part. Later ones work.
    Error(io::ErrorKind),
    /// That operation and all after it fail, until [`MemoryFiles::power_cut`].
    PowerOff,
}

/// A file system in memory. Clones are the same file system.
#[derive(Clone, Default)]
pub struct MemoryFiles(Arc<Mutex<World>>);

#[derive(Default)]
struct World {
    /// Names as a process sees them.
    names: BTreeMap<PathBuf, usize>,
    dirs: BTreeSet<PathBuf>,
    /// Names that survive.
    durable: BTreeMap<PathBuf, usize>,
    durable_dirs: BTreeSet<PathBuf>,
    /// Changes of names that are not synced, in order.
    pending: Vec<NameChange>,
    inodes: Vec<Inode>,
    locks: BTreeSet<PathBuf>,
    /// Counts operations that change anything.
    operations: u64,
    faults: BTreeMap<u64, Fault>,
    off: bool,
    /// Raised at each power cut: handles of before are dead.
    boot: u64,
    capacity: Option<u64>,
}

#[derive(Clone)]
enum NameChange {
    Dir(PathBuf),
    Create(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

#[derive(Default)]
struct Inode {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<DataChange>,
}

enum DataChange {
    Write(usize, Vec<u8>),
    Length(usize),
}

struct MemoryFile {
    world: Arc<Mutex<World>>,
    inode: usize,
    boot: u64,
}

struct MemoryLock {
    world: Arc<Mutex<World>>,
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
        let mut world = lock(&self.0);
        for inode in &mut world.inodes {
            inode.power_cut(&mut random);
        }
        world.lose_names(&mut random);
        world.restart();
    }

    /// The process dies and another starts: everything written is there, synced or not. All handles and locks of
    /// before are dead.
    pub fn kill(&self) {
        lock(&self.0).restart();
    }

    /// The bytes of a file, as a process sees them.
    #[must_use]
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let world = lock(&self.0);
        world.names.get(path).map(|&inode| world.inodes[inode].bytes.clone())
    }

    /// Puts a file there, durably, as damage or an operator's copy would.
    pub fn put(&self, path: &Path, bytes: Vec<u8>) {
        let mut world = lock(&self.0);
        let inode = Inode { durable: bytes.clone(), bytes, pending: Vec::new() };
        world.inodes.push(inode);
        let number = world.inodes.len() - 1;
        world.names.insert(path.into(), number);
        world.durable.insert(path.into(), number);
    }

    /// A copy of the whole file system as it is now.
    #[must_use]
    pub fn copy(&self) -> Self {
        let copy = Self::new();
        let (world, mut other) = (lock(&self.0), lock(&copy.0));
        for (path, &inode) in &world.names {
            let bytes = world.inodes[inode].bytes.clone();
            other.inodes.push(Inode { durable: bytes.clone(), bytes, pending: Vec::new() });
            let number = other.inodes.len() - 1;
            other.names.insert(path.clone(), number);
            other.durable.insert(path.clone(), number);
        }
        other.dirs.clone_from(&world.dirs);
        other.durable_dirs.clone_from(&world.dirs);
        drop(other);
        copy
    }

    fn handle(&self, world: &World, inode: usize) -> Arc<dyn File> {
        Arc::new(MemoryFile { world: Arc::clone(&self.0), inode, boot: world.boot })
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
        let mut world = lock(&self.0);
        if world.dirs.contains(dir) {
            return Ok(());
        }
        world.operation()?;
        for part in dir.ancestors() {
            // The root is always there.
            if !is_root(part) && world.dirs.insert(part.into()) {
                world.pending.push(NameChange::Dir(part.into()));
            }
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let world = lock(&self.0);
        world.powered()?;
        if !world.dirs.contains(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let children = world.names.keys().chain(&world.dirs).filter(|path| path.parent() == Some(dir));
        let names = children.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        Ok(names.collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut world = lock(&self.0);
        world.operation()?;
        if world.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !path.parent().is_some_and(|dir| world.dirs.contains(dir)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        world.inodes.push(Inode::default());
        let inode = world.inodes.len() - 1;
        world.names.insert(path.into(), inode);
        world.pending.push(NameChange::Create(path.into(), inode));
        Ok(self.handle(&world, inode))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let world = lock(&self.0);
        world.powered()?;
        let inode = world.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.handle(&world, *inode))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = lock(&self.0);
        world.operation()?;
        let inode = world.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        world.names.insert(to.into(), inode);
        world.pending.push(NameChange::Rename(from.into(), to.into()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut world = lock(&self.0);
        world.operation()?;
        world.names.remove(path).ok_or(io::ErrorKind::NotFound)?;
        world.pending.push(NameChange::Remove(path.into()));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut world = lock(&self.0);
        world.operation()?;
        let pending = std::mem::take(&mut world.pending);
        for change in pending {
            if change.dir() == Some(dir) {
                world.make_durable(change);
            } else {
                world.pending.push(change);
            }
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        let mut world = lock(&self.0);
        world.powered()?;
        if !world.locks.insert(path.into()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Lock::new(MemoryLock { world: Arc::clone(&self.0), path: path.into(), boot: world.boot }))
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        let mut world = lock(&self.world);
        if world.boot == self.boot {
            world.locks.remove(&self.path);
        }
    }
}

impl File for MemoryFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut world = self.alive()?;
        world.powered()?;
        let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let outcome = world.operation().and_then(|()| world.has_room(self.inode, offset + bytes.len()));
        // An operation that fails may have written a part.
        let written = if outcome.is_ok() { bytes } else { &bytes[..bytes.len() / 2] };
        world.inodes[self.inode].write(offset, written);
        outcome
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let world = self.alive()?;
        world.powered()?;
        let bytes = &world.inodes[self.inode].bytes;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let count = buffer.len().min(bytes.len() - from);
        buffer[..count].copy_from_slice(&bytes[from..from + count]);
        Ok(count)
    }

    fn length(&self) -> io::Result<u64> {
        let world = self.alive()?;
        world.powered()?;
        Ok(world.inodes[self.inode].bytes.len() as u64)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        if length <= self.length()? {
            return Ok(());
        }
        self.set_length(length)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut world = self.alive()?;
        world.operation()?;
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
        world.has_room(self.inode, length)?;
        let inode = &mut world.inodes[self.inode];
        inode.bytes.resize(length, 0);
        inode.pending.push(DataChange::Length(length));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.alive()?;
        world.operation()?;
        world.inodes[self.inode].sync();
        Ok(())
    }
}

impl MemoryFile {
    fn alive(&self) -> io::Result<MutexGuard<'_, World>> {
        let world = lock(&self.world);
        if world.boot == self.boot { Ok(world) } else { Err(io::Error::other("handle of before the crash")) }
    }
}

impl World {
    fn powered(&self) -> io::Result<()> {
        if self.off { Err(io::Error::other("the power is off")) } else { Ok(()) }
    }

    fn operation(&mut self) -> io::Result<()> {
        self.powered()?;
        self.operations += 1;
        match self.faults.get(&self.operations) {
            None => Ok(()),
            Some(&Fault::Error(kind)) => Err(kind.into()),
            Some(Fault::PowerOff) => {
                self.off = true;
                self.powered()
            }
        }
    }

    fn has_room(&self, inode: usize, length: usize) -> io::Result<()> {
        let Some(capacity) = self.capacity else { return Ok(()) };
        let named: BTreeSet<usize> = self.names.values().copied().collect();
        let others =
            named.iter().filter(|&&other| other != inode).map(|&other| self.inodes[other].bytes.len());
        let needed = others.sum::<usize>() + length;
        let grows = length > self.inodes[inode].bytes.len();
        if grows && needed as u64 > capacity { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn make_durable(&mut self, change: NameChange) {
        match change {
            NameChange::Dir(path) => {
                self.durable_dirs.insert(path);
            }
            NameChange::Create(path, inode) => {
                self.durable.insert(path, inode);
            }
            NameChange::Rename(from, to) => {
                if let Some(inode) = self.durable.remove(&from) {
                    self.durable.insert(to, inode);
                }
            }
            NameChange::Remove(path) => {
                self.durable.remove(&path);
            }
        }
    }

    /// Of the changes of each directory that were not synced, a prefix survives.
    fn lose_names(&mut self, random: &mut SplitMix) {
        let mut lost = BTreeSet::new();
        for change in std::mem::take(&mut self.pending) {
            let dir = change.dir().map(Path::to_path_buf);
            if !lost.contains(&dir) && coin(random) {
                self.make_durable(change);
            } else {
                lost.insert(dir);
            }
        }
        // A file whose directory did not survive is gone with it.
        let mut dirs = self.durable_dirs.clone();
        dirs.retain(|path| path.ancestors().all(|dir| is_root(dir) || self.durable_dirs.contains(dir)));
        self.durable_dirs.clone_from(&dirs);
        self.durable.retain(|path, _| path.ancestors().skip(1).all(|dir| is_root(dir) || dirs.contains(dir)));
        self.names.clone_from(&self.durable);
        self.dirs = dirs;
    }

    fn restart(&mut self) {
        self.boot += 1;
        self.off = false;
        self.faults.clear();
        self.locks.clear();
    }
}

impl NameChange {
    fn dir(&self) -> Option<&Path> {
        match self {
            Self::Dir(path) | Self::Create(path, _) | Self::Rename(_, path) | Self::Remove(path) => {
                path.parent()
            }
        }
    }
}

impl Inode {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        put_bytes(&mut self.bytes, offset, bytes);
        self.pending.push(DataChange::Write(offset, bytes.to_vec()));
    }

    fn sync(&mut self) {
        for change in self.pending.drain(..) {
            match change {
                DataChange::Write(offset, bytes) => put_bytes(&mut self.durable, offset, &bytes),
                DataChange::Length(length) => self.durable.resize(length, 0),
            }
        }
    }

    /// Each sector of each write that was not synced survives or not, whatever the order.
    fn power_cut(&mut self, random: &mut SplitMix) {
        let whole = coin(random);
        for change in self.pending.drain(..) {
            match change {
                DataChange::Length(length) if coin(random) => self.durable.resize(length, 0),
                DataChange::Length(_) => {}
                DataChange::Write(offset, bytes) => {
                    for (number, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                        if whole || coin(random) {
                            put_bytes(&mut self.durable, offset + number * SECTOR_BYTES, sector);
                        }
                    }
                }
            }
        }
        self.bytes.clone_from(&self.durable);
    }
}

fn put_bytes(target: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if target.len() < offset + bytes.len() {
        target.resize(offset + bytes.len(), 0);
    }
    target[offset..offset + bytes.len()].copy_from_slice(bytes);
}

fn is_root(dir: &Path) -> bool {
    dir.parent().is_none()
}

fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

fn coin(random: &mut SplitMix) -> bool {
    random.next_u64() & 1 == 1
}
