//! Watches whether the disk still writes: a thread outside of the async runtime times the oldest waiting write.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How the disk writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteLevel {
    /// As it should.
    #[default]
    Ok,
    /// A write waits longer than a few elections take.
    Slow,
    /// A write waits so long that only a restart helps. Final.
    Dead,
}

/// Where the levels begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteLimits {
    /// Longer than this: [`WriteLevel::Slow`]. Three election timeouts.
    pub slow: Duration,
    /// Longer than this: [`WriteLevel::Dead`].
    pub dead: Duration,
}

impl WriteLimits {
    /// The limits for an election timeout (the longest that is drawn).
    #[must_use]
    pub fn for_election_timeout(election_timeout: Duration) -> Self {
        let slow = election_timeout * 3;
        Self { slow, dead: slow.max(Duration::from_secs(30)) }
    }
}

/// When a tick comes this much too late, the process did not run.
const LATE_TICK: Duration = Duration::from_millis(200);

/// Pauses that are remembered. One that is forgotten makes a wait look longer, on the safe side.
const PAUSES_MAX: usize = 64;

/// Turns waits into levels. Pure: the caller gives the time.
///
/// Time in which the whole process did not run (stopped, suspended, a frozen container) is no fault of the disk and is
/// taken off a wait. A level gets better only after the waits were short for as long as `slow`.
#[derive(Debug)]
pub struct WriteGauge {
    limits: WriteLimits,
    interval: Duration,
    level: WriteLevel,
    last_tick: Option<Duration>,
    /// When a pause ended, and how long it was; oldest first.
    pauses: VecDeque<(Duration, Duration)>,
    short_since: Option<Duration>,
}

impl WriteGauge {
    /// A gauge that its caller reads every `interval`.
    #[must_use]
    pub fn new(limits: WriteLimits, interval: Duration) -> Self {
        Self {
            limits,
            interval,
            level: WriteLevel::Ok,
            last_tick: None,
            pauses: VecDeque::new(),
            short_since: None,
        }
    }

    /// The level at `now` (any monotonic clock that goes on while the process is stopped), given how long the oldest
    /// write has been waiting.
    pub fn tick(&mut self, now: Duration, oldest_wait: Option<Duration>) -> WriteLevel {
        self.note_pause(now);
        let wait = self.without_pauses(now, oldest_wait.unwrap_or_default());
        if self.level == WriteLevel::Dead || wait > self.limits.dead {
            self.level = WriteLevel::Dead;
        } else if wait > self.limits.slow {
            self.level = WriteLevel::Slow;
            self.short_since = None;
        } else if self.level == WriteLevel::Slow {
            self.recover(now, wait);
        }
        self.level
    }

    fn recover(&mut self, now: Duration, wait: Duration) {
        if wait > self.limits.slow / 2 {
            self.short_since = None;
            return;
        }
        let since = *self.short_since.get_or_insert(now);
        if now.saturating_sub(since) >= self.limits.slow {
            self.level = WriteLevel::Ok;
            self.short_since = None;
        }
    }

    fn note_pause(&mut self, now: Duration) {
        let Some(last) = self.last_tick.replace(now) else { return };
        let late = now.saturating_sub(last).saturating_sub(self.interval);
        if late > LATE_TICK {
            self.pauses.push_back((now, late));
        }
        while self.pauses.len() > PAUSES_MAX {
            self.pauses.pop_front();
        }
    }

    /// The part of a wait in which the process ran.
    fn without_pauses(&self, now: Duration, wait: Duration) -> Duration {
        let began = now.saturating_sub(wait);
        let paused: Duration =
            self.pauses.iter().filter(|(end, _)| *end > began).map(|(_, length)| *length).sum();
        wait.saturating_sub(paused)
    }
}

/// The thread that watches. It ends when this is dropped.
#[derive(Debug)]
pub struct Watchdog {
    levels: watch::Receiver<WriteLevel>,
    /// Closed to end the thread.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// How often it looks.
    pub const INTERVAL: Duration = Duration::from_millis(100);

    /// Starts the thread. `oldest_wait` is [`Log::oldest_wait`](crate::log::Log::oldest_wait); it must not block.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        limits: WriteLimits,
        oldest_wait: impl Fn() -> Option<Duration> + Send + 'static,
    ) -> io::Result<Self> {
        let begin = Instant::now();
        Self::start_with(limits, Self::INTERVAL, move || begin.elapsed(), oldest_wait)
    }

    /// The same with another interval and clock.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start_with(
        limits: WriteLimits,
        interval: Duration,
        clock: impl Fn() -> Duration + Send + 'static,
        oldest_wait: impl Fn() -> Option<Duration> + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, levels) = watch::channel(WriteLevel::Ok);
        let (stop, stopped) = mpsc::channel();
        let mut gauge = WriteGauge::new(limits, interval);
        let thread = std::thread::Builder::new().name("disk-watchdog".to_owned()).spawn(move || {
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let level = gauge.tick(clock(), oldest_wait());
                sender.send_if_modified(|last| std::mem::replace(last, level) != level);
            }
        })?;
        Ok(Self { levels, stop: Some(stop), thread: Some(thread) })
    }

    /// The level, as it changes.
    #[must_use]
    pub fn levels(&self) -> watch::Receiver<WriteLevel> {
        self.levels.clone()
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the disk watchdog had panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    const INTERVAL_MS: u64 = 100;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn limits() -> WriteLimits {
        WriteLimits::for_election_timeout(ms(500))
    }

    /// Ticks from one time to another while one write is waiting since `since_ms`.
    fn hang(gauge: &mut WriteGauge, from_ms: u64, to_ms: u64, since_ms: u64) -> WriteLevel {
        let mut level = WriteLevel::Ok;
        for now in (from_ms..=to_ms).step_by(INTERVAL_MS as usize) {
            level = gauge.tick(ms(now), Some(ms(now - since_ms)));
        }
        level
    }

    fn idle(gauge: &mut WriteGauge, from_ms: u64, to_ms: u64) -> WriteLevel {
        let mut level = WriteLevel::Ok;
        for now in (from_ms..=to_ms).step_by(INTERVAL_MS as usize) {
            level = gauge.tick(ms(now), None);
        }
        level
    }

    #[test]
    fn limits_follow_the_election_timeout() {
        assert_eq!(limits(), WriteLimits { slow: ms(1_500), dead: ms(30_000) });
        assert_eq!(WriteLimits::for_election_timeout(ms(20_000)).dead, ms(60_000));
    }

    #[test]
    fn a_write_that_hangs_is_slow_and_then_dead_for_good() {
        let mut gauge = WriteGauge::new(limits(), ms(INTERVAL_MS));
        assert_eq!(hang(&mut gauge, 0, 1_500, 0), WriteLevel::Ok);
        assert_eq!(hang(&mut gauge, 1_600, 30_000, 0), WriteLevel::Slow);
        assert_eq!(hang(&mut gauge, 30_100, 30_100, 0), WriteLevel::Dead);
        assert_eq!(idle(&mut gauge, 30_200, 90_000), WriteLevel::Dead);
    }

    #[test]
    fn it_is_well_again_after_short_waits_for_as_long_as_slow_is() {
        let mut gauge = WriteGauge::new(limits(), ms(INTERVAL_MS));
        assert_eq!(hang(&mut gauge, 0, 2_000, 0), WriteLevel::Slow);
        assert_eq!(idle(&mut gauge, 2_100, 2_500), WriteLevel::Slow);
        // One more write of 1 s starts the time again.
        assert_eq!(hang(&mut gauge, 2_600, 3_600, 2_600), WriteLevel::Slow);
        assert_eq!(idle(&mut gauge, 3_700, 5_100), WriteLevel::Slow);
        assert_eq!(idle(&mut gauge, 5_200, 5_200), WriteLevel::Ok);
    }

    #[test]
    fn many_quick_writes_are_fine() {
        let mut gauge = WriteGauge::new(limits(), ms(INTERVAL_MS));
        for now in (0..100_000).step_by(100) {
            assert_eq!(gauge.tick(ms(now), Some(ms(now % 700))), WriteLevel::Ok);
        }
    }

    #[test]
    fn a_pause_of_the_process_is_not_a_hung_disk() {
        let mut gauge = WriteGauge::new(limits(), ms(INTERVAL_MS));
        hang(&mut gauge, 0, 500, 0);
        // Stopped for a minute with a write on the way.
        assert_eq!(gauge.tick(ms(60_600), Some(ms(60_600))), WriteLevel::Ok);
        // The next one was queued before the pause, too.
        assert_eq!(gauge.tick(ms(60_700), Some(ms(60_300))), WriteLevel::Ok);
        // One of after the pause gets nothing taken off.
        assert_eq!(hang(&mut gauge, 60_800, 62_600, 60_700), WriteLevel::Slow);
    }

    #[tokio::test]
    async fn the_thread_reports_and_ends() {
        let wait_ms = Arc::new(AtomicU64::new(0));
        let now_ms = Arc::new(AtomicU64::new(0));
        let (clock, source) = (now_ms.clone(), wait_ms.clone());
        let watchdog = Watchdog::start_with(
            limits(),
            ms(1),
            move || ms(clock.fetch_add(1, Ordering::Relaxed)),
            move || Some(ms(source.load(Ordering::Relaxed))),
        )
        .unwrap();
        let mut levels = watchdog.levels();
        assert_eq!(*levels.borrow_and_update(), WriteLevel::Ok);
        wait_ms.store(2_000, Ordering::Relaxed);
        levels.changed().await.unwrap();
        assert_eq!(*levels.borrow_and_update(), WriteLevel::Slow);
        wait_ms.store(31_000, Ordering::Relaxed);
        levels.changed().await.unwrap();
        assert_eq!(*levels.borrow_and_update(), WriteLevel::Dead);
        drop(watchdog);
        assert!(levels.changed().await.is_err(), "the thread has ended");
    }
}
