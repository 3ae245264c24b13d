//! What the last registrations of a broker name changed of its topics.
//!
//! A node that has compared a registration with the table at a former group version need compare only these topics
//! again. Derived and not stored: after a snapshot was loaded nothing is known, and the node compares all topics.

use crate::Position;
use crate::command::Name;
use std::sync::Arc;

/// Changes that are remembered per broker name.
const CHANGES_MAX: usize = 8;
/// Topics that they may name together.
const NAMES_MAX: usize = 64;

/// From one group version to the next, by a registration that left the group as it was and touched the queues of these
/// topics only.
#[derive(Debug, Clone)]
struct TopicChange {
    from: Position,
    to: Position,
    topics: Arc<[Name]>,
}

/// The last changes of a broker name, each beginning where the one before ended.
#[derive(Debug, Clone, Default)]
pub(super) struct TopicChanges(Arc<[TopicChange]>);

impl TopicChanges {
    /// These changes and one more; as many as there is room for, the oldest go.
    pub(super) fn and(&self, from: Position, to: Position, topics: impl Iterator<Item = Name>) -> Self {
        // One name more than there is room for is as good as all.
        let change = TopicChange { from, to, topics: topics.take(NAMES_MAX + 1).collect() };
        let goes_on = self.0.last().is_some_and(|last| last.to == from);
        let former = if goes_on { &*self.0 } else { &[] };
        let (mut room, mut kept) = (NAMES_MAX, 0);
        for change in std::iter::once(&change).chain(former.iter().rev()).take(CHANGES_MAX) {
            let Some(left) = room.checked_sub(change.topics.len()) else { break };
            (room, kept) = (left, kept + 1);
        }
        if kept == 0 {
            return Self::default();
        }
        let (_, former) = former.split_at(former.len() + 1 - kept);
        Self(former.iter().cloned().chain([change]).collect())
    }

    /// The topics that changed from one version to another; `None` when that is not known.
    pub(super) fn between(&self, from: Position, to: Position) -> Option<Vec<Name>> {
        let first = self.0.iter().position(|change| change.from == from)?;
        let changes = self.0.get(first..)?;
        if changes.last()?.to != to {
            return None;
        }
        Some(changes.iter().flat_map(|change| change.topics.iter().cloned()).collect())
    }
}
