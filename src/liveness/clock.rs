//! Time that this process spent running.

use std::time::Duration;
use tokio::time::Instant;

/// Time since the ledger began, without the time during which this process did not run.
pub(super) type Running = Duration;

/// Whole milliseconds, as they go over the wire.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What a new clock shows: moments from before the process began have a place, too.
const BEGUN: Running = Duration::from_secs(24 * 3600);

/// How long nothing may run before it counts as a pause: the rest of the gap is left out of all silences.
pub(super) const LATENESS_MAX: Duration = Duration::from_millis(200);

/// In a gap of this length peers may have lost patience, closed and come again: Java waits three seconds for an answer.
const LONG_PAUSE: Duration = Duration::from_secs(3);

/// Turns monotonic time into running time.
///
/// Every call into the ledger goes through [`advance`](Self::advance), a tick at the latest. A gap between two
/// calls therefore means that the process was stopped, starved or suspended, and could have heard nobody: all but
/// [`LATENESS_MAX`] of it is skipped, once, for all brokers.
#[derive(Debug)]
pub(super) struct RunningClock {
    start: Instant,
    last: Instant,
    skipped: Duration,
    pauses: u64,
    /// Before that it was not asked regularly.
    begun: bool,
    resumed: Running,
}

impl RunningClock {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            start: now,
            last: now,
            skipped: Duration::ZERO,
            pauses: 0,
            begun: false,
            resumed: Running::ZERO,
        }
    }

    /// Running time at `now`. Never goes back, also when `now` was read before another caller's.
    pub(super) fn advance(&mut self, now: Instant) -> Running {
        let gap = now.saturating_duration_since(self.last);
        if gap > LATENESS_MAX {
            self.skipped += gap - LATENESS_MAX;
            self.pauses += 1;
        }
        self.last = self.last.max(now);
        let running = BEGUN + self.last.duration_since(self.start).saturating_sub(self.skipped);
        if std::mem::replace(&mut self.begun, true) && gap >= LONG_PAUSE {
            self.resumed = running;
        }
        running
    }

    /// When the process last went on after a long pause.
    pub(super) fn resumed(&self) -> Running {
        self.resumed
    }

    /// How often the process did not run.
    pub(super) fn pauses(&self) -> u64 {
        self.pauses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_for_no_more_than_the_allowed_lateness() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut clock = RunningClock::new(start);
        assert_eq!(clock.advance(start + ms(200)), BEGUN + ms(200));
        assert_eq!(clock.advance(start + ms(10_200)), BEGUN + ms(400));
        assert_eq!(clock.advance(start + ms(10_250)), BEGUN + ms(450));
        assert_eq!(clock.advance(start + ms(10_100)), BEGUN + ms(450), "an earlier reading changes nothing");
        assert_eq!((clock.pauses(), clock.resumed()), (1, BEGUN + ms(400)));
        clock.advance(start + ms(13_000));
        assert_eq!((clock.pauses(), clock.resumed()), (2, BEGUN + ms(400)), "nobody gives up so soon");
        let mut late = RunningClock::new(start);
        late.advance(start + ms(10_000));
        assert_eq!(late.resumed(), Running::ZERO, "it had not begun");
    }
}
