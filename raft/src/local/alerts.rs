//! What the operator must know while it lasts: one sentence per matter, logged at most every ten seconds.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Between two log lines on the same matter.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The current notices.
#[derive(Default)]
pub(crate) struct Notices {
    current: Mutex<BTreeMap<String, Notice>>,
}

struct Notice {
    text: Option<String>,
    logged: Instant,
}

impl Notices {
    /// Something about a matter must be known.
    pub(crate) fn set(&self, matter: &str, text: String) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match current.get_mut(matter) {
            Some(notice) => {
                if notice.logged + LOG_INTERVAL <= now {
                    tracing::warn!("{text}");
                    notice.logged = now;
                }
                notice.text = Some(text);
            }
            None => {
                tracing::warn!("{text}");
                current.insert(matter.to_owned(), Notice { text: Some(text), logged: now });
            }
        }
    }

    /// Logs something that is over as soon as it is said.
    pub(crate) fn log(&self, matter: &str, text: String) {
        self.set(matter, text);
        self.clear(matter);
    }

    /// The matter is settled.
    pub(crate) fn clear(&self, matter: &str) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notice) = current.get_mut(matter) {
            notice.text = None;
        }
    }

    /// All of them in one text; empty when all is well.
    pub(crate) fn text(&self) -> String {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let texts: Vec<&str> = current.values().filter_map(|n| n.text.as_deref()).collect();
        texts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_notice_lasts_until_it_is_settled() {
        let notices = Notices::default();
        notices.set("a", "first".into());
        notices.set("b", "other".into());
        notices.set("a", "second".into());
        assert_eq!(notices.text(), "second; other");
        notices.clear("a");
        assert_eq!(notices.text(), "other");
        notices.log("c", "gone".into());
        assert_eq!(notices.text(), "other");
    }
}
