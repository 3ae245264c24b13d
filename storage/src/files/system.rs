//! The operating system's files.

use super::{File, Files, Lock};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often, and how far apart, a lock held by another process is tried.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// Zeros are written in pieces of this size where the file system cannot reserve space.
const ZEROS_BYTES: usize = 64 << 10;

/// The operating system's files.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemFiles;

#[derive(Debug)]
struct SystemFile(fs::File);

impl Files for SystemFiles {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
        fs::create_dir_all(dir)?;
        missing.iter().filter_map(|dir| dir.parent()).try_for_each(|parent| self.sync_dir(parent))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for item in fs::read_dir(dir)? {
            names.push(item?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = fs::OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(Arc::new(SystemFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = fs::OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Arc::new(SystemFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        fs::File::open(dir)?.sync_all()
    }

    #[allow(clippy::disallowed_methods, reason = "flock cannot be awaited with a deadline")]
    fn lock(&self, path: &Path) -> io::Result<Lock> {
        let file = fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        for attempt in 0..=LOCK_TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(Lock::new(file)),
                Err(fs::TryLockError::WouldBlock) if attempt < LOCK_TRIES => std::thread::sleep(LOCK_PAUSE),
                Err(e) => return Err(e.into()),
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl File for SystemFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let old = self.length()?;
        if length <= old {
            return Ok(());
        }
        let flags = rustix::fs::FallocateFlags::empty();
        match rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.0, flags, old, length - old)) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => self.write_zeros(old, length),
            Err(e) => Err(e.into()),
        }
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

impl SystemFile {
    fn write_zeros(&self, from: u64, to: u64) -> io::Result<()> {
        let zeros = vec![0; ZEROS_BYTES];
        let mut at = from;
        while at < to {
            let piece = usize::try_from(to - at).unwrap_or(ZEROS_BYTES).min(ZEROS_BYTES);
            self.0.write_all_at(&zeros[..piece], at)?;
            at += piece as u64;
        }
        Ok(())
    }
}
