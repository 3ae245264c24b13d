//! The mass eviction guard as the cluster remembers it: whether it is active, and since which entry.

use super::RouteInfo;
use crate::Position;
use crate::command::SetEvictionGuard;
use crate::outcome::{Event, Outcome};

impl RouteInfo {
    /// Carries the begin or the end of the guard out. A guard that is active already keeps the position of its begin.
    pub(super) fn set_eviction_guard(
        &mut self,
        at: Position,
        command: &SetEvictionGuard,
        events: &mut Vec<Event>,
    ) -> Outcome {
        let active = command.active;
        if active == self.eviction_guard.is_some() {
            return Outcome::Done { changed: false };
        }
        self.eviction_guard = active.then_some(at);
        events.push(Event::EvictionGuardChanged { active });
        Outcome::Done { changed: true }
    }
}
