//! How late the timers of consensus are.

use crate::api::TickLateness;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts ticks by their lateness.
#[derive(Default)]
pub(crate) struct LatenessCounter {
    counts: [AtomicU64; TickLateness::BOUNDS_MS.len() + 1],
    sum_us: AtomicU64,
}

impl LatenessCounter {
    /// Counts a tick that came this late.
    pub(crate) fn record(&self, late: Duration) {
        let ms = late.as_millis();
        let bucket = TickLateness::BOUNDS_MS.iter().position(|bound| ms < u128::from(*bound));
        if let Some(count) = self.counts.get(bucket.unwrap_or(TickLateness::BOUNDS_MS.len())) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let us = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// All ticks so far.
    pub(crate) fn get(&self) -> TickLateness {
        TickLateness {
            counts: self.counts.each_ref().map(|count| count.load(Ordering::Relaxed)),
            sum: Duration::from_micros(self.sum_us.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_counted_by_their_lateness() {
        let counter = LatenessCounter::default();
        for ms in [0, 4, 5, 99, 100, 3_600_000] {
            counter.record(Duration::from_millis(ms));
        }
        let late = counter.get();
        assert_eq!(late.counts, [2, 1, 0, 0, 1, 1, 0, 0, 1]);
        assert_eq!(late.sum, Duration::from_millis(3_600_208));
    }
}
