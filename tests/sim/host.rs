//! A machine: one thread's worth of tasks with a clock of its own, which runs only when it is let.
//!
//! Each node is a runtime of its own, so that a fault hits all that it does, spawned tasks too: one that is not run
//! stands still while time goes on (as after SIGSTOP, its clock jumps when it runs again); one that is dropped ends
//! between two awaits without a word (as after SIGKILL).

use std::future::Future;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, advance, sleep_until};

/// Since the simulation began.
pub(crate) type Moment = Duration;

/// Machines run in turn, each this far; whatever passes between two of them takes at least as long.
pub(crate) const STEP: Duration = Duration::from_millis(STEP_MS);
/// The same, milliseconds.
pub(crate) const STEP_MS: u64 = 4;

/// Tells a machine's tasks the time of the simulation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
    started: Moment,
}

impl Clock {
    /// Now; must be asked on the machine.
    pub(crate) fn now(&self) -> Moment {
        self.started + self.start.elapsed()
    }

    pub(crate) fn instant(&self, at: Moment) -> Instant {
        self.start + at.saturating_sub(self.started)
    }

    pub(crate) fn sleep_until(&self, at: Moment) -> Sleep {
        sleep_until(self.instant(at))
    }
}

pub(crate) struct Host {
    runtime: Runtime,
    pub(crate) clock: Clock,
    at: Moment,
}

impl Host {
    /// `seed` decides what tokio decides by chance. Only a tokio built with `tokio_unstable` takes a seed.
    pub(crate) fn new(now: Moment, seed: u64) -> Self {
        let mut builder = Builder::new_current_thread();
        builder.enable_time().start_paused(true);
        #[cfg(tokio_unstable)]
        builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_le_bytes()));
        #[cfg(not(tokio_unstable))]
        let _ = seed;
        let runtime = builder.build().unwrap();
        let start = runtime.block_on(async { Instant::now() });
        Self { runtime, clock: Clock { start, started: now }, at: now }
    }

    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.runtime.spawn(task)
    }

    /// What is asked within sees this machine's clock.
    pub(crate) fn on<T>(&self, ask: impl FnOnce() -> T) -> T {
        let _here = self.runtime.enter();
        ask()
    }

    /// Runs until a moment. Time in which it was not run passes at once.
    pub(crate) fn run_until(&mut self, at: Moment) {
        let (missed, clock) = (at.saturating_sub(self.at).saturating_sub(STEP), self.clock);
        self.at = at;
        self.runtime.block_on(async move {
            if !missed.is_zero() {
                advance(missed).await;
            }
            clock.sleep_until(at).await;
        });
    }
}
