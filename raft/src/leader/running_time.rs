//! Time during which this process runs.

use std::time::Duration;
use tokio::time::Instant;

/// Measures the time between looks that a task takes at an interval. What a look is late by more than one interval does
/// not count: the process was paused meanwhile, and could hear nobody.
pub(crate) struct RunningTime {
    interval: Duration,
    last: Instant,
}

impl RunningTime {
    /// Begins now; the task looks at this interval.
    pub(crate) fn begin(interval: Duration) -> Self {
        Self { interval, last: Instant::now() }
    }

    /// How late this look is.
    pub(crate) fn late(&self) -> Duration {
        self.last.elapsed().saturating_sub(self.interval)
    }

    /// The running time since the last look.
    pub(crate) fn look(&mut self) -> Duration {
        let gap = self.last.elapsed().min(2 * self.interval);
        self.last = Instant::now();
        gap
    }
}
