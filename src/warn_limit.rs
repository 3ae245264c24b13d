//! Limits the warnings that a peer can cause at will: at most one line per 10 s and kind.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use storage::command::Name;
use tokio::time::Instant;

/// Between two lines of one kind.
const INTERVAL: Duration = Duration::from_secs(10);
/// Names with a limit of their own; the names beyond share one.
const NAMES_MAX: usize = 1024;

/// Allows one line per 10 s, and counts the lines that it held back.
#[derive(Debug, Default)]
pub(crate) struct WarnLimit(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// When the last line was allowed.
    last: Option<Instant>,
    /// Lines held back since.
    held_back: u64,
}

impl WarnLimit {
    /// A limit that has allowed no line yet.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(State { last: None, held_back: 0 }))
    }

    /// Whether a line may be written now: `Some(lines held back since the last one)`.
    pub(crate) fn allow(&self) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).allow(Instant::now())
    }
}

impl State {
    fn is_recent(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| now.duration_since(last) < INTERVAL)
    }

    fn allow(&mut self, now: Instant) -> Option<u64> {
        if self.is_recent(now) {
            self.held_back += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.held_back))
    }
}

/// A [`WarnLimit`] per name, so that the lines about one name do not hide those about another.
#[derive(Debug, Default)]
pub(crate) struct WarnLimits {
    names: Mutex<HashMap<Name, State>>,
    others: WarnLimit,
}

impl WarnLimits {
    /// As [`WarnLimit::allow`].
    pub(crate) fn allow(&self, name: &Name) -> Option<u64> {
        let now = Instant::now();
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= NAMES_MAX && !names.contains_key(name) {
            names.retain(|_, state| state.is_recent(now));
            if names.len() >= NAMES_MAX {
                return self.others.allow();
            }
        }
        names.entry(Name::clone(name)).or_default().allow(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_per_ten_seconds_is_allowed_and_the_others_are_counted() {
        let limit = WarnLimit::default();
        assert_eq!(limit.allow(), Some(0));
        assert_eq!(limit.allow(), None);
        assert_eq!(limit.allow(), None);
        tokio::time::advance(INTERVAL).await;
        assert_eq!(limit.allow(), Some(2));
        assert_eq!(limit.allow(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn names_have_a_limit_each_and_are_bounded() {
        let limits = WarnLimits::default();
        let name = |n: usize| Name::from(n.to_string());
        assert_eq!((limits.allow(&name(0)), limits.allow(&name(0))), (Some(0), None));
        for n in 1..NAMES_MAX {
            assert_eq!(limits.allow(&name(n)), Some(0));
        }
        assert_eq!(
            (limits.allow(&name(5_000)), limits.allow(&name(5_001))),
            (Some(0), None),
            "these share one"
        );
        assert_eq!(limits.names.lock().unwrap().len(), NAMES_MAX);
        tokio::time::advance(INTERVAL).await;
        assert_eq!((limits.allow(&name(5_001)), limits.allow(&name(5_002))), (Some(0), Some(0)));
        assert_eq!(limits.names.lock().unwrap().len(), 2, "old names are forgotten");
    }
}
