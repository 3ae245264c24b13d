//! The reserve file: it only takes up space, which the node frees when the disk is full.

use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Room put aside for a full disk: enough to go on voting, to purge, and to open the log and the snapshots.
///
/// It is allocated on the real disk, so it is not behind the `Files` trait.
#[derive(Debug)]
pub struct ReserveFile {
    path: PathBuf,
    bytes: u64,
    /// Its bytes on disk.
    held_bytes: u64,
}

impl ReserveFile {
    /// Usual size, bytes.
    pub const BYTES: u64 = 64 << 20;

    /// Looks at the file; makes nothing. What a crash left of it is counted as it is.
    ///
    /// # Errors
    /// The file cannot be looked at.
    pub fn open(path: PathBuf, bytes: u64) -> io::Result<Self> {
        let held_bytes = held(&path).map_err(|error| explain("look at", &path, error))?;
        Ok(Self { path, bytes, held_bytes: held_bytes.min(bytes) })
    }

    /// Bytes that are missing to its usual size.
    #[must_use]
    pub fn missing_bytes(&self) -> u64 {
        self.bytes - self.held_bytes
    }

    /// Gives the room back.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn release(&mut self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(explain("give back", &self.path, error))
            }
            _ => {
                self.held_bytes = 0;
                Ok(())
            }
        }
    }

    /// Takes the room again.
    ///
    /// # Errors
    /// There is not enough; then nothing of it is kept.
    pub fn restore(&mut self) -> io::Result<()> {
        if self.missing_bytes() == 0 {
            return Ok(());
        }
        match allocate(&self.path, self.bytes) {
            Ok(()) => {
                self.held_bytes = self.bytes;
                Ok(())
            }
            Err(error) => {
                self.release()?;
                Err(explain("make", &self.path, error))
            }
        }
    }
}

fn held(path: &Path) -> io::Result<u64> {
    match fs::metadata(path) {
        // Blocks, not length: a file with holes holds no room. They are units of 512 bytes by definition.
        Ok(metadata) => Ok(metadata.blocks().saturating_mul(512).min(metadata.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

fn allocate(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = File::options().create(true).truncate(false).write(true).open(path)?;
    match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => {}
        // Some file systems cannot; writing does the same.
        Err(rustix::io::Errno::OPNOTSUPP) => {
            let zeros = vec![0; 1 << 20];
            let mut left = bytes;
            while left > 0 {
                let now = left.min(zeros.len() as u64);
                file.write_all(zeros.get(..usize::try_from(now).unwrap_or(0)).unwrap_or_default())?;
                left -= now;
            }
        }
        Err(errno) => return Err(errno.into()),
    }
    file.sync_all()
}

fn explain(attempt: &str, path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {attempt} the reserve file {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_given_back_and_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("reserve");
        let mut reserve = ReserveFile::open(path.clone(), 1 << 20).unwrap();
        assert_eq!(reserve.missing_bytes(), 1 << 20);
        for _ in 0..2 {
            reserve.restore().unwrap();
            assert_eq!(reserve.missing_bytes(), 0);
            assert!(fs::metadata(&path).unwrap().blocks() * 512 >= 1 << 20);
            reserve.release().unwrap();
            assert_eq!(reserve.missing_bytes(), 1 << 20);
            assert!(!path.exists());
        }
        reserve.release().unwrap();
    }

    #[test]
    fn a_file_with_holes_is_no_reserve() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("reserve");
        File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let mut reserve = ReserveFile::open(path.clone(), 1 << 20).unwrap();
        assert_eq!(reserve.missing_bytes(), 1 << 20);
        reserve.restore().unwrap();
        assert_eq!(ReserveFile::open(path, 1 << 20).unwrap().missing_bytes(), 0);
    }

    #[test]
    fn what_does_not_fit_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("reserve");
        let mut reserve = ReserveFile::open(path.clone(), 1 << 50).unwrap();
        let error = reserve.restore().unwrap_err();
        assert!(error.to_string().contains("reserve"), "{error}");
        assert!(!path.exists());
        assert_eq!(reserve.missing_bytes(), 1 << 50);
    }
}
