//! Operator alerts: what an operator must know while it lasts, one sentence per key.
//!
//! An alert ends with its cause: the room that raised it clears it. Where only a message shows the cause (a handshake),
//! the alert ends when none has come for a while: [`Alerts::set_while_repeated`].

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use storage::limits::ALERT_BYTES_MAX;
use tokio::time::Instant;

/// Between two log lines of one key.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// A cause that was not met again for this long has ended. Nodes that miss the others try every few seconds at least.
const REPEATED_WITHIN: Duration = Duration::from_secs(10);

/// The current alerts, by key. Each is logged at most every ten seconds.
#[derive(Default)]
pub(crate) struct Alerts {
    by_key: Mutex<BTreeMap<String, Alert>>,
}

struct Alert {
    /// `None` once it is cleared; the entry stays for `logged`.
    raised: Option<Raised>,
    logged: Instant,
}

struct Raised {
    text: String,
    since: Instant,
    /// When it ends unless it is repeated; `None`: when it is cleared.
    until: Option<Instant>,
}

impl Alert {
    fn raised(&self, now: Instant) -> Option<&Raised> {
        self.raised.as_ref().filter(|raised| raised.until.is_none_or(|until| now < until))
    }
}

impl Alerts {
    /// Raises an alert, or changes its text, until it is cleared. A text that quotes too much, of a peer for example, is
    /// cut.
    pub(crate) fn set(&self, key: &str, text: String) {
        self.raise(key, text, None);
    }

    /// The same, until it is cleared or has not been repeated for ten seconds.
    pub(crate) fn set_while_repeated(&self, key: &str, text: String) {
        self.raise(key, text, Some(REPEATED_WITHIN));
    }

    fn raise(&self, key: &str, mut text: String, lasts: Option<Duration>) {
        text.truncate(text.floor_char_boundary(ALERT_BYTES_MAX));
        let mut by_key = self.lock();
        let now = Instant::now();
        let before = by_key.get(key);
        let since = before.and_then(|alert| alert.raised(now)).map_or(now, |raised| raised.since);
        let logged = before.map(|alert| alert.logged).filter(|logged| now < *logged + LOG_INTERVAL);
        if logged.is_none() {
            tracing::warn!("{text}");
        }
        let raised = Raised { text, since, until: lasts.map(|lasts| now + lasts) };
        let alert = Alert { raised: Some(raised), logged: logged.unwrap_or(now) };
        by_key.insert(key.to_owned(), alert);
    }

    /// Logs an event that does not last; the alerts do not show it.
    pub(crate) fn log(&self, key: &str, text: String) {
        self.set(key, text);
        self.clear(key);
    }

    /// Ends an alert.
    pub(crate) fn clear(&self, key: &str) {
        if let Some(alert) = self.lock().get_mut(key) {
            alert.raised = None;
        }
    }

    /// All alerts, each with how long it has lasted.
    pub(crate) fn texts(&self) -> Vec<String> {
        let (by_key, now) = (self.lock(), Instant::now());
        let raised = by_key.values().filter_map(|alert| alert.raised(now));
        raised.map(|raised| format!("{} (for {} s)", raised.text, (now - raised.since).as_secs())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Alert>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn an_alert_lasts_until_it_is_cleared() {
        let alerts = Alerts::default();
        alerts.set("a", "first".into());
        advance(2 * REPEATED_WITHIN).await;
        alerts.set("b", "other".into());
        alerts.set("a", "second".into());
        assert_eq!(alerts.texts(), ["second (for 20 s)", "other (for 0 s)"]);
        alerts.clear("a");
        assert_eq!(alerts.texts(), ["other (for 0 s)"]);
        alerts.log("c", "gone".into());
        assert_eq!(alerts.texts(), ["other (for 0 s)"]);
        alerts.set("b", "é".repeat(ALERT_BYTES_MAX) + "x");
        assert_eq!(alerts.texts()[0].len(), ALERT_BYTES_MAX + " (for 0 s)".len());
    }

    #[tokio::test(start_paused = true)]
    async fn what_only_a_message_shows_ends_when_it_is_not_repeated() {
        let alerts = Alerts::default();
        for _ in 0..3 {
            alerts.set_while_repeated("a", "met".into());
            advance(REPEATED_WITHIN - Duration::from_secs(1)).await;
        }
        assert_eq!(alerts.texts(), ["met (for 27 s)"]);
        advance(Duration::from_secs(1)).await;
        assert!(alerts.texts().is_empty());
        alerts.set_while_repeated("a", "met".into());
        assert_eq!(alerts.texts(), ["met (for 0 s)"], "it began anew");
    }
}
