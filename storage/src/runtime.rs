//! What a node takes from the operating system: wall clock and randomness. A simulation brings its own.
//!
//! Monotonic time and timers are tokio's (`tokio::time`), which a test can pause; tasks are tokio's.

/// Wall clock and randomness.
pub trait Runtime: Send + Sync + 'static {
    /// Milliseconds since 1970. For display; decides nothing.
    fn unix_ms(&self) -> u64;
    /// A random number: ids, jitter, seeds, salts.
    fn random_u64(&self) -> u64;
}

/// The operating system's.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRuntime;

impl Runtime for SystemRuntime {
    #[allow(clippy::disallowed_methods, reason = "this is the one place")]
    fn unix_ms(&self) -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
    }

    #[allow(clippy::disallowed_methods, reason = "this is the one place")]
    fn random_u64(&self) -> u64 {
        rand::random()
    }
}
