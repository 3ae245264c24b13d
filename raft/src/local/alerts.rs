//! Operator alerts: what an operator must know while it lasts, one sentence per key.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use storage::limits::ALERT_BYTES_MAX;
use tokio::time::Instant;

/// Between two log lines of one key.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The current alerts, by key. Each is logged at most every ten seconds.
#[derive(Default)]
pub(crate) struct Alerts {
    by_key: Mutex<BTreeMap<String, Alert>>,
}

struct Alert {
    /// `None` once it is cleared; the entry stays for `logged`.
    text: Option<String>,
    logged: Instant,
}

impl Alerts {
    /// Raises an alert, or changes its text. A text that quotes too much, of a peer for example, is cut.
    pub(crate) fn set(&self, key: &str, mut text: String) {
        text.truncate(text.floor_char_boundary(ALERT_BYTES_MAX));
        let mut by_key = self.lock();
        let now = Instant::now();
        match by_key.get_mut(key) {
            Some(alert) => {
                if alert.logged + LOG_INTERVAL <= now {
                    tracing::warn!("{text}");
                    alert.logged = now;
                }
                alert.text = Some(text);
            }
            None => {
                tracing::warn!("{text}");
                by_key.insert(key.to_owned(), Alert { text: Some(text), logged: now });
            }
        }
    }

    /// Logs an event that does not last; the alerts do not show it.
    pub(crate) fn log(&self, key: &str, text: String) {
        self.set(key, text);
        self.clear(key);
    }

    /// Ends an alert.
    pub(crate) fn clear(&self, key: &str) {
        if let Some(alert) = self.lock().get_mut(key) {
            alert.text = None;
        }
    }

    /// All alerts in one text; empty when all is well.
    pub(crate) fn text(&self) -> String {
        let by_key = self.lock();
        let texts: Vec<&str> = by_key.values().filter_map(|alert| alert.text.as_deref()).collect();
        texts.join("; ")
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Alert>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_alert_lasts_until_it_is_cleared() {
        let alerts = Alerts::default();
        alerts.set("a", "first".into());
        alerts.set("b", "other".into());
        alerts.set("a", "second".into());
        assert_eq!(alerts.text(), "second; other");
        alerts.clear("a");
        assert_eq!(alerts.text(), "other");
        alerts.log("c", "gone".into());
        assert_eq!(alerts.text(), "other");
        alerts.set("b", "é".repeat(ALERT_BYTES_MAX) + "x");
        assert_eq!(alerts.text().len(), ALERT_BYTES_MAX);
    }
}
