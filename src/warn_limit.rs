//! Warnings that a peer can cause at will are logged at most once per 10 s and kind.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use storage::command::Name;
use tokio::time::Instant;

/// Between two lines of one kind.
const EVERY: Duration = Duration::from_secs(10);
/// Names with a limit of their own; those beyond share one.
const NAMES_MAX: usize = 1024;

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
        self.0.lock().unwrap_or_else(PoisonError::into_inner).allow(Instant::now())
    }
}

impl Held {
    fn is_recent(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| now.duration_since(last) < EVERY)
    }

    fn allow(&mut self, now: Instant) -> Option<u64> {
        if self.is_recent(now) {
            self.since += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.since))
    }
}

/// A [`WarnLimit`] for each name, so that what one causes hides no other.
#[derive(Debug, Default)]
pub(crate) struct WarnLimits {
    names: Mutex<HashMap<Name, Held>>,
    others: WarnLimit,
}

impl WarnLimits {
    /// As [`WarnLimit::allow`].
    pub(crate) fn allow(&self, name: &Name) -> Option<u64> {
        let now = Instant::now();
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= NAMES_MAX && !names.contains_key(name) {
            names.retain(|_, held| held.is_recent(now));
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
    async fn one_line_per_ten_seconds_and_the_rest_is_counted() {
        let limit = WarnLimit::default();
        assert_eq!(limit.allow(), Some(0));
        assert_eq!(limit.allow(), None);
        assert_eq!(limit.allow(), None);
        tokio::time::advance(EVERY).await;
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
        tokio::time::advance(EVERY).await;
        assert_eq!((limits.allow(&name(5_001)), limits.allow(&name(5_002))), (Some(0), Some(0)));
        assert_eq!(limits.names.lock().unwrap().len(), 2, "what is long ago is forgotten");
    }
}
