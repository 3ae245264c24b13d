//! The state behind [`super::MemoryFiles`]: names, files and faults.

use super::inode::{Inode, coin};
use crate::split_mix::SplitMix;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// What happens at an operation that was chosen to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// That operation fails with this error; a write may have happened in part. Later ones work.
    Error(io::ErrorKind),
    /// That operation and all after it fail, until [`super::MemoryFiles::power_cut`].
    PowerOff,
}

/// A disk with one file system.
#[derive(Default)]
pub(super) struct Disk {
    /// Names as a process sees them.
    pub(super) names: BTreeMap<PathBuf, usize>,
    pub(super) dirs: BTreeSet<PathBuf>,
    /// Names that survive.
    pub(super) durable: BTreeMap<PathBuf, usize>,
    pub(super) durable_dirs: BTreeSet<PathBuf>,
    /// Changes of names that are not synced, in order.
    pub(super) pending: Vec<NameChange>,
    pub(super) inodes: Vec<Inode>,
    pub(super) locks: BTreeSet<PathBuf>,
    /// Counts operations that change anything.
    pub(super) operations: u64,
    pub(super) faults: BTreeMap<u64, Fault>,
    pub(super) off: bool,
    /// Raised at each power cut: handles of before are dead.
    pub(super) boot: u64,
    pub(super) capacity: Option<u64>,
}

/// A change of names that is not synced.
#[derive(Clone)]
pub(super) enum NameChange {
    Dir(PathBuf),
    Create(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl Disk {
    pub(super) fn powered(&self) -> io::Result<()> {
        if self.off { Err(io::Error::other("the power is off")) } else { Ok(()) }
    }

    pub(super) fn operation(&mut self) -> io::Result<()> {
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

    pub(super) fn has_room(&self, inode: usize, length: usize) -> io::Result<()> {
        let Some(capacity) = self.capacity else { return Ok(()) };
        let named: BTreeSet<usize> = self.names.values().copied().collect();
        let others =
            named.iter().filter(|&&other| other != inode).map(|&other| self.inodes[other].bytes.len());
        let needed = others.sum::<usize>() + length;
        let grows = length > self.inodes[inode].bytes.len();
        if grows && needed as u64 > capacity { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    pub(super) fn make_durable(&mut self, change: NameChange) {
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
    pub(super) fn lose_names(&mut self, random: &mut SplitMix) {
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

    pub(super) fn restart(&mut self) {
        self.boot += 1;
        self.off = false;
        self.faults.clear();
        self.locks.clear();
    }
}

impl NameChange {
    pub(super) fn dir(&self) -> Option<&Path> {
        match self {
            Self::Dir(path) | Self::Create(path, _) | Self::Rename(_, path) | Self::Remove(path) => {
                path.parent()
            }
        }
    }
}

pub(super) fn is_root(dir: &Path) -> bool {
    dir.parent().is_none()
}
