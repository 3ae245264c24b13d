//! Warnings that a peer can cause at will are logged at most once per 10 s and kind.

use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Between two lines of one kind.
const EVERY: Duration = Duration::from_secs(10);

/// Lets one line of a kind through per 10 s, and counts those that it held back.
#[derive(Debug, Default)]
pub(crate) struct WarnLimit(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    last: Option<Instant>,
    since: u64,
}

impl WarnLimit {
    /// One that has let nothing through yet.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Held { last: None, since: 0 }))
    }

    /// `Some(held back since the last line)` when a line may be written now.
    pub(crate) fn allow(&self) -> Option<u64> {
        let now = Instant::now();
        let mut held = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if held.last.is_some_and(|last| now.duration_since(last) < EVERY) {
            held.since += 1;
            return None;
        }
        held.last = Some(now);
        Some(std::mem::take(&mut held.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_per_ten_seconds_and_the_rest_is_counted() {
        let limit = WarnLimit::default();
        assert_eq!(limit.allow(), Some(0));
        assert_eq!(limit.allow(), None);
        assert_eq!(limit.allow(), None);
        tokio::time::advance(EVERY).await;
        assert_eq!(limit.allow(), Some(2));
        assert_eq!(limit.allow(), None);
    }
}
