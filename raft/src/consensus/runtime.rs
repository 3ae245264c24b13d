//! openraft's runtime: tokio's tasks and timers, with random numbers of the node's [`Runtime`].

use crate::local::blocking;
use openraft_rt::{AsyncRuntime, OptionalSend};
use openraft_rt_tokio::{TokioInstant, TokioMpsc, TokioMutex, TokioOneshot, TokioRuntime, TokioWatch};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use storage::runtime::{Runtime, SystemRuntime};

tokio::task_local! {
    /// Source of the random numbers of a node's tasks. openraft calls its runtime by type, not by value.
    static RANDOMNESS: Arc<dyn Runtime>;
}

/// openraft takes its random numbers from `runtime`, within `work` and in all tasks that it spawns there.
pub(crate) async fn with_randomness<T>(runtime: Arc<dyn Runtime>, work: impl Future<Output = T>) -> T {
    RANDOMNESS.scope(runtime, work).await
}

/// The runtime type.
#[derive(Debug)]
pub(crate) struct RaftRuntime(TokioRuntime);

impl AsyncRuntime for RaftRuntime {
    type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = TokioInstant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = <TokioRuntime as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = Random;
    type Mpsc = TokioMpsc;
    type Watch = TokioWatch;
    type Oneshot = TokioOneshot;
    type Mutex<T: OptionalSend + 'static> = TokioMutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        match RANDOMNESS.try_with(Arc::clone) {
            Ok(runtime) => TokioRuntime::spawn(RANDOMNESS.scope(runtime, future)),
            Err(_) => TokioRuntime::spawn(future),
        }
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(
        duration: Duration,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(
        deadline: Self::Instant,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    fn is_panic(join_error: &Self::JoinError) -> bool {
        TokioRuntime::is_panic(join_error)
    }

    fn thread_rng() -> Random {
        Random(RANDOMNESS.try_with(Arc::clone).unwrap_or_else(|_| Arc::new(SystemRuntime)))
    }

    fn new(threads: usize) -> Self {
        Self(TokioRuntime::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }

    async fn spawn_blocking<F, T>(work: F) -> io::Result<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        blocking(|| Ok(work())).await
    }
}

/// The node's random numbers, as openraft calls them.
pub(crate) struct Random(Arc<dyn Runtime>);

impl rand::TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(u32::try_from(self.0.random_u64() >> 32).unwrap_or_default())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.random_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for part in bytes.chunks_mut(8) {
            let random = self.0.random_u64().to_le_bytes();
            part.iter_mut().zip(random).for_each(|(byte, random)| *byte = random);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Counted(AtomicU64);

    impl Runtime for Counted {
        fn unix_ms(&self) -> u64 {
            0
        }

        fn random_u64(&self) -> u64 {
            self.0.fetch_add(1, Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn spawned_tasks_use_the_random_numbers_of_their_node() {
        use rand::Rng;
        let draw = || async {
            let spawned = RaftRuntime::spawn(async { RaftRuntime::thread_rng().next_u64() });
            (RaftRuntime::thread_rng().next_u64(), spawned.await.unwrap())
        };
        let (a, b): (Arc<dyn Runtime>, Arc<dyn Runtime>) =
            (Arc::new(Counted(AtomicU64::new(10))), Arc::new(Counted(AtomicU64::new(20))));
        assert_eq!(with_randomness(a.clone(), draw()).await, (10, 11));
        assert_eq!(with_randomness(b, draw()).await, (20, 21));
        assert_eq!(with_randomness(a, draw()).await, (12, 13));
    }
}
