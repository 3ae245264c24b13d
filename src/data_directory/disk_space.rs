//! Watches the free space of the data directory's disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use storage::disk::{DiskGuard, SpaceLevel};
use tokio::time::sleep;

/// Between two samples of the free space.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// The last sampled level, shared by the watch and consensus. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct SharedLevel(Arc<AtomicU8>);

impl SharedLevel {
    pub(super) fn new(level: SpaceLevel) -> Self {
        Self(Arc::new(AtomicU8::new(to_byte(level))))
    }

    pub(super) fn get(&self) -> SpaceLevel {
        match self.0.load(Ordering::Relaxed) {
            0 => SpaceLevel::Ok,
            1 => SpaceLevel::Low,
            _ => SpaceLevel::Min,
        }
    }

    /// Sets the level, and returns whether it was another.
    fn set(&self, level: SpaceLevel) -> bool {
        let byte = to_byte(level);
        self.0.swap(byte, Ordering::Relaxed) != byte
    }
}

/// Samples the free space until the task is dropped.
pub(super) async fn watch(mut guard: DiskGuard, level: SharedLevel) {
    loop {
        sleep(SAMPLE_INTERVAL).await;
        let sampling = tokio::task::spawn_blocking(move || {
            let sampled = guard.sample();
            (guard, sampled)
        });
        let Ok((back, sampled)) = sampling.await else { return };
        guard = back;
        match sampled {
            Ok(status) => {
                if level.set(status.level) {
                    tracing::warn!(level = %status.level, free_bytes = status.free_bytes, "room on the disk");
                }
            }
            Err(error) => tracing::warn!(%error, "the free space cannot be looked at"),
        }
    }
}

fn to_byte(level: SpaceLevel) -> u8 {
    match level {
        SpaceLevel::Ok => 0,
        SpaceLevel::Low => 1,
        SpaceLevel::Min => 2,
    }
}
