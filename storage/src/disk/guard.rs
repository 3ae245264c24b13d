//! Watches the free space of a disk: levels, and the reserve file that is removed when the disk is full.

use super::{ReserveFile, Space, SpaceSource};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How much room there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpaceLevel {
    /// Enough.
    Ok,
    /// The leader refuses commands and transfers the leadership.
    Low,
    /// The node takes no entries.
    Min,
}

impl fmt::Display for SpaceLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Low => "low",
            Self::Min => "min",
        })
    }
}

/// Where the levels begin, bytes of free space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceLimits {
    /// Below this: [`SpaceLevel::Low`].
    pub low_bytes: u64,
    /// Below this: [`SpaceLevel::Min`].
    pub min_bytes: u64,
    /// Below this the reserve is given back: two more segments of the log would not fit.
    pub full_bytes: u64,
    /// Size of the reserve.
    pub reserve_bytes: u64,
}

impl Default for SpaceLimits {
    fn default() -> Self {
        Self {
            low_bytes: 256 << 20,
            min_bytes: 96 << 20,
            full_bytes: 32 << 20,
            reserve_bytes: ReserveFile::BYTES,
        }
    }
}

impl SpaceLimits {
    /// The limits for a disk of this size: none takes more than a small part of it, so that a small disk (a test, a
    /// container with a quota) can be used at all.
    #[must_use]
    pub fn capped_to(self, total_bytes: u64) -> Self {
        Self {
            low_bytes: self.low_bytes.min(total_bytes / 8),
            min_bytes: self.min_bytes.min(total_bytes / 16),
            full_bytes: self.full_bytes.min(total_bytes / 32),
            reserve_bytes: self.reserve_bytes.min(total_bytes / 16),
        }
    }

    fn level(&self, usable_bytes: u64) -> SpaceLevel {
        match usable_bytes {
            bytes if bytes < self.min_bytes => SpaceLevel::Min,
            bytes if bytes < self.low_bytes => SpaceLevel::Low,
            _ => SpaceLevel::Ok,
        }
    }
}

/// The free space at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceStatus {
    /// The level.
    pub level: SpaceLevel,
    /// Free space, bytes.
    pub free_bytes: u64,
    /// Size of the file system, bytes.
    pub total_bytes: u64,
    /// Whether the reserve is whole.
    pub reserve_held: bool,
}

/// Watches the free space of a node's disk. The caller samples it, about once a second, where blocking is allowed.
pub struct DiskGuard {
    limits: SpaceLimits,
    source: Arc<dyn SpaceSource>,
    reserve: ReserveFile,
    level: SpaceLevel,
}

impl DiskGuard {
    /// Name of the reserve file in the data directory.
    pub const RESERVE_FILE: &str = "reserve";

    /// Begins to watch a data directory, and creates it if it is missing. Call it before the log and the snapshots are
    /// opened: on a full disk it removes the reserve file, so that they can be. Limits are
    /// [capped](SpaceLimits::capped_to) to the size of the disk.
    ///
    /// # Errors
    /// The directory cannot be created, the free space or the reserve file not be looked at.
    pub fn open(directory: &Path, limits: SpaceLimits, source: Arc<dyn SpaceSource>) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let limits = limits.capped_to(source.space()?.total_bytes);
        let reserve = ReserveFile::open(directory.join(Self::RESERVE_FILE), limits.reserve_bytes)?;
        let mut guard = Self { limits, source, reserve, level: SpaceLevel::Ok };
        guard.sample()?;
        Ok(guard)
    }

    /// Measures the free space; removes the reserve file when the disk is full, and makes it again when there is room.
    ///
    /// # Errors
    /// The free space cannot be looked at, or the reserve not be given back. A reserve that cannot be made again
    /// is no error: the next sample tries again.
    pub fn sample(&mut self) -> io::Result<SpaceStatus> {
        let mut space = self.source.space()?;
        if self.usable_bytes(space) < self.limits.full_bytes
            && self.reserve.missing_bytes() < self.limits.reserve_bytes
        {
            self.reserve.release()?;
            space = self.source.space()?;
            tracing::warn!(free_bytes = space.free_bytes, "the disk is full: the reserve was given back");
        }
        self.level = self.next_level(self.usable_bytes(space));
        if self.level == SpaceLevel::Ok && self.reserve.missing_bytes() > 0 {
            match self.reserve.restore() {
                Ok(()) => space = self.source.space()?,
                Err(error) => tracing::warn!("{error}"),
            }
        }
        Ok(SpaceStatus {
            level: self.level,
            free_bytes: space.free_bytes,
            total_bytes: space.total_bytes,
            reserve_held: self.reserve.missing_bytes() == 0,
        })
    }

    /// The level that the last sample found.
    #[must_use]
    pub fn level(&self) -> SpaceLevel {
        self.level
    }

    /// The limits for this disk.
    #[must_use]
    pub fn limits(&self) -> SpaceLimits {
        self.limits
    }

    /// Free space without the bytes that the reserve will take again: removing the reserve must not look like free space.
    fn usable_bytes(&self, space: Space) -> u64 {
        space.free_bytes.saturating_sub(self.reserve.missing_bytes())
    }

    /// A worse level holds at once, a better one only a quarter above its limit, so that the level does not flap.
    fn next_level(&self, usable_bytes: u64) -> SpaceLevel {
        let now = self.limits.level(usable_bytes);
        if now >= self.level {
            return now;
        }
        let with_margin = self.limits.level(usable_bytes - usable_bytes / 5);
        with_margin.min(self.level)
    }
}

impl fmt::Debug for DiskGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskGuard")
            .field("limits", &self.limits)
            .field("reserve", &self.reserve)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;
    use std::sync::Mutex;
    use tempfile::TempDir;

    const MIB: u64 = 1 << 20;

    /// A disk of 1 GiB that others fill; the reserve file takes room as on a real one.
    struct Fake {
        others_bytes: Mutex<u64>,
        reserve: PathBuf,
    }

    impl SpaceSource for Fake {
        fn space(&self) -> io::Result<Space> {
            let total_bytes = 1024 * MIB;
            let reserve = fs::metadata(&self.reserve).map_or(0, |metadata| metadata.len());
            let free_bytes = total_bytes.saturating_sub(*self.others_bytes.lock().unwrap() + reserve);
            Ok(Space { free_bytes, total_bytes })
        }
    }

    fn limits() -> SpaceLimits {
        SpaceLimits {
            low_bytes: 100 * MIB,
            min_bytes: 50 * MIB,
            full_bytes: 10 * MIB,
            reserve_bytes: 4 * MIB,
        }
    }

    fn disk() -> (TempDir, Arc<Fake>) {
        let directory = TempDir::new().unwrap();
        let reserve = directory.path().join(DiskGuard::RESERVE_FILE);
        (directory, Arc::new(Fake { others_bytes: Mutex::new(0), reserve }))
    }

    /// Fills the disk up to so much free space (with the reserve in place) and samples.
    fn sample(guard: &mut DiskGuard, fake: &Fake, free_bytes: u64) -> SpaceStatus {
        *fake.others_bytes.lock().unwrap() = 1024 * MIB - 4 * MIB - free_bytes;
        guard.sample().unwrap()
    }

    #[test]
    fn levels_follow_the_free_space_and_do_not_flap() {
        let (directory, fake) = disk();
        let mut guard = DiskGuard::open(directory.path(), limits(), fake.clone()).unwrap();
        for (free_mib, level) in [
            (500, SpaceLevel::Ok),
            (100, SpaceLevel::Ok),
            (99, SpaceLevel::Low),
            (110, SpaceLevel::Low),
            (50, SpaceLevel::Low),
            (49, SpaceLevel::Min),
            (55, SpaceLevel::Min),
            (70, SpaceLevel::Low),
            (40, SpaceLevel::Min),
            (130, SpaceLevel::Ok),
        ] {
            let status = sample(&mut guard, &fake, free_mib * MIB);
            assert_eq!(status.level, level, "{free_mib} MiB free");
            assert_eq!(status.free_bytes, free_mib * MIB);
            assert!(status.reserve_held);
        }
    }

    #[test]
    fn the_reserve_is_given_back_when_full_and_made_again_when_there_is_room() {
        let (directory, fake) = disk();
        let mut guard = DiskGuard::open(directory.path(), limits(), fake.clone()).unwrap();
        assert!(sample(&mut guard, &fake, 10 * MIB).reserve_held);
        let full = sample(&mut guard, &fake, 9 * MIB);
        assert_eq!((full.level, full.free_bytes, full.reserve_held), (SpaceLevel::Min, 13 * MIB, false));
        // Its room must not count: the level stays, and it is not made again at once.
        for free_mib in [9, 20, 49, 51, 100, 124] {
            let status = sample(&mut guard, &fake, free_mib * MIB);
            assert!(
                !status.reserve_held && status.level != SpaceLevel::Ok,
                "{free_mib} MiB free: {status:?}"
            );
        }
        let status = sample(&mut guard, &fake, 126 * MIB);
        assert_eq!((status.level, status.reserve_held), (SpaceLevel::Ok, true));
    }

    #[test]
    fn a_node_that_starts_on_a_full_disk_gets_room_first() {
        let (directory, fake) = disk();
        drop(DiskGuard::open(directory.path(), limits(), fake.clone()).unwrap());
        assert!(fake.reserve.exists());
        *fake.others_bytes.lock().unwrap() = 1020 * MIB;
        let guard = DiskGuard::open(directory.path(), limits(), fake.clone()).unwrap();
        assert!(!fake.reserve.exists());
        assert_eq!(guard.level(), SpaceLevel::Min);
    }

    #[test]
    fn limits_fit_a_small_disk() {
        let capped = SpaceLimits::default().capped_to(64 * MIB);
        assert_eq!(capped.low_bytes, 8 * MIB);
        assert_eq!(capped.min_bytes, 4 * MIB);
        assert_eq!(capped.full_bytes, 2 * MIB);
        assert_eq!(capped.reserve_bytes, 4 * MIB);
        assert_eq!(SpaceLimits::default().capped_to(100 << 30), SpaceLimits::default());
    }

    #[test]
    fn no_answer_is_an_error() {
        struct Silent;
        impl SpaceSource for Silent {
            fn space(&self) -> io::Result<Space> {
                Err(io::Error::other("gone"))
            }
        }
        let directory = TempDir::new().unwrap();
        assert!(DiskGuard::open(directory.path(), limits(), Arc::new(Silent)).is_err());
        assert!(!directory.path().join(DiskGuard::RESERVE_FILE).exists());
    }
}
