//! How much room a file system has.

use std::io;
use std::path::PathBuf;

/// Room on a file system, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// What a process without privileges may still write.
    pub free_bytes: u64,
    /// Size of the file system.
    pub total_bytes: u64,
}

/// Tells the room on the node's disk. A test brings its own.
pub trait SpaceSource: Send + Sync + 'static {
    /// The room now.
    ///
    /// # Errors
    /// The operating system does not say.
    fn space(&self) -> io::Result<Space>;
}

/// The file system that a path is on.
#[derive(Debug, Clone)]
pub struct FileSystemSpace {
    path: PathBuf,
}

impl FileSystemSpace {
    /// The file system of `path`, which must exist when [`SpaceSource::space`] is called.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }
}

impl SpaceSource for FileSystemSpace {
    fn space(&self) -> io::Result<Space> {
        let stat = rustix::fs::statvfs(&self.path).map_err(|errno| {
            let error = io::Error::from(errno);
            let message = format!("cannot ask for the free space of {}: {error}", self.path.display());
            io::Error::new(error.kind(), message)
        })?;
        Ok(Space {
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_answers() {
        let directory = tempfile::tempdir().unwrap();
        let space = FileSystemSpace::new(directory.path().to_owned()).space().unwrap();
        assert!(space.total_bytes > 0 && space.free_bytes <= space.total_bytes, "{space:?}");
        let error = FileSystemSpace::new(directory.path().join("gone")).space().unwrap_err();
        assert!(error.to_string().contains("gone"), "{error}");
    }
}
