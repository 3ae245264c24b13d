//! Write permission of all topics of a broker name.

use super::RouteInfo;
use crate::Position;
use crate::command::{Name, PERM_READ, PERM_WRITE, SetWritePermission};
use crate::outcome::{Event, Outcome, PermissionCause};
use std::sync::Arc;

impl SetWritePermission {
    /// The permission that becomes of another.
    fn rewrite(&self, perm: i32) -> i32 {
        if self.writable { PERM_READ | PERM_WRITE } else { perm & !PERM_WRITE }
    }
}

impl RouteInfo {
    /// Whether WIPE / ADD write permission would change any topic, and its outcome.
    pub(super) fn plan_set_write_permission(&self, command: &SetWritePermission) -> (bool, Outcome) {
        let Some(topics) = self.topics_of.get(&command.broker) else {
            return (false, Outcome::Topics { count: 0 });
        };
        let changes = topics.iter().any(|topic| {
            self.queue(topic, &command.broker).is_some_and(|queue| command.rewrite(queue.perm) != queue.perm)
        });
        (changes, Outcome::Topics { count: u32::try_from(topics.len()).unwrap_or(u32::MAX) })
    }

    /// Carries WIPE / ADD write permission out.
    pub(super) fn set_write_permission(
        &mut self,
        at: Position,
        command: &SetWritePermission,
        events: &mut Vec<Event>,
    ) -> Outcome {
        let (changes, outcome) = self.plan_set_write_permission(command);
        if changes {
            let topics = self.rewrite_permissions(at, &command.broker, |perm| command.rewrite(perm));
            self.touch_group(at, &command.broker);
            events.push(Event::PermissionChanged {
                broker: command.broker.clone(),
                writable: command.writable,
                why: PermissionCause::Asked,
                topics,
            });
        }
        outcome
    }

    /// Rewrites the permission of all topics of a broker name; gives the number that changed. The caller moves
    /// the group's version.
    pub(super) fn rewrite_permissions(
        &mut self,
        at: Position,
        broker: &Name,
        rewrite: impl Fn(i32) -> i32,
    ) -> u32 {
        let Some(topics) = self.topics_of.get(broker).cloned() else { return 0 };
        let mut changed = 0;
        for name in &topics {
            let Some(queue) = self.queue(name, broker) else { continue };
            let perm = rewrite(queue.perm);
            if perm == queue.perm {
                continue;
            }
            let Some(topic) = self.topics.get_mut(name) else { continue };
            topic.version = at;
            let found = topic.queues.binary_search_by(|(other, _)| other.cmp(broker));
            let entry = found.ok().and_then(|found| Arc::make_mut(&mut topic.queues).get_mut(found));
            if let Some((_, queue)) = entry {
                queue.perm = perm;
                changed += 1;
            }
        }
        changed
    }
}
