//! Work that takes the processor for long: parsing, planning and encoding of large registrations.

use super::{niceness, set_niceness};
use std::io;
use std::sync::OnceLock;
use std::thread::available_parallelism;
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};

/// Most threads of the pool.
const THREADS_MAX: usize = 8;
/// Niceness of the pool's threads: a tenth of the processor while others want it.
const NICENESS: i32 = 10;

/// Runs work that takes the processor for long on a pool of the whole process, at low priority: neither consensus nor
/// look-ups wait for it. A runtime of one thread, as in a simulation, runs it at once: that keeps the order of events.
///
/// # Errors
/// The work panicked.
pub async fn background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return Ok(work());
    }
    let task = async move { work() };
    let done = match pool() {
        Some(pool) => pool.spawn(task),
        None => tokio::spawn(task),
    };
    done.await.map_err(io::Error::other)
}

/// The pool; none if its threads cannot be started.
fn pool() -> Option<&'static Runtime> {
    static POOL: OnceLock<Option<Runtime>> = OnceLock::new();
    let start = || {
        let threads = available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let pool = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("background")
            // A process that is nicer already stays so.
            .on_thread_start(|| set_niceness(NICENESS.max(niceness())))
            .build();
        pool.inspect_err(|e| tracing::warn!("large registrations are not worked on at low priority: {e}"))
            .ok()
    };
    POOL.get_or_init(start).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn work_runs_on_a_thread_of_low_priority() {
        let own = niceness();
        assert_eq!(background(niceness).await.unwrap(), NICENESS.max(own));
        assert_eq!(niceness(), own, "the caller keeps its own");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_panic_is_an_error_of_its_caller_only() {
        assert!(background(|| panic!("no number")).await.is_err());
        assert_eq!(background(|| 7).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn one_thread_keeps_the_order_of_events() {
        let thread = std::thread::current().id();
        assert_eq!(background(move || std::thread::current().id()).await.unwrap(), thread);
    }
}
