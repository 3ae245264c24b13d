//! Where the lines go, on the thread of the log.

use std::io::{self, Write};
use std::time::Duration;
use tokio::time::Instant;

/// At most one line about dropped ones in this time.
const NOTICE_INTERVAL: Duration = Duration::from_secs(1);

/// Writes lines, and logs how many were dropped once the next one is written.
pub(super) struct Stderr<W, D> {
    out: W,
    /// Lines dropped since the start.
    dropped: D,
    /// How many of these were logged.
    reported: u64,
    reported_at: Option<Instant>,
}

impl<W: Write, D: Fn() -> u64> Stderr<W, D> {
    pub(super) fn new(out: W, dropped: D) -> Self {
        Self { out, dropped, reported: 0, reported_at: None }
    }

    /// The line about them goes the way of all lines: it stands where the dropped ones would stand.
    fn report_dropped(&mut self) {
        let dropped = (self.dropped)();
        let is_recent = self.reported_at.is_some_and(|at| at.elapsed() < NOTICE_INTERVAL);
        if dropped == self.reported || is_recent {
            return;
        }
        tracing::warn!("{} log lines dropped: stderr was not read in time", dropped - self.reported);
        // When that line found no room either, it is said again.
        if (self.dropped)() == dropped {
            self.reported = dropped;
            self.reported_at = Some(Instant::now());
        }
    }
}

impl<W: Write, D: Fn() -> u64> Write for Stderr<W, D> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn write_all(&mut self, line: &[u8]) -> io::Result<()> {
        self.out.write_all(line)?;
        self.report_dropped();
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
