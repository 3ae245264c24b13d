//! What the last registrations of a broker name changed of its topics.
//!
//! Who has compared a registration with the table at a former group version need look only at these topics again.
//! Derived and not stored: after a snapshot was loaded nothing is known, and all topics are looked at.

use super::RouteInfo;
use crate::Position;
use crate::command::Name;
use std::sync::Arc;

/// Steps that are remembered per broker name.
const STEPS_MAX: usize = 8;
/// Topics that they may name together.
const NAMES_MAX: usize = 64;

/// From one group version to the next, by a registration that left the group as it was and touched the queues of these
/// topics only.
#[derive(Debug, Clone)]
struct Step {
    from: Position,
    to: Position,
    topics: Arc<[Name]>,
}

/// The last steps of a broker name, each beginning where the one before ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Steps(Arc<[Step]>);

impl Steps {
    fn and(&self, step: Step) -> Self {
        let goes_on = self.0.last().is_some_and(|last| last.to == step.from);
        let former = if goes_on { &*self.0 } else { &[] };
        let (mut room, mut kept) = (NAMES_MAX, 0);
        for step in std::iter::once(&step).chain(former.iter().rev()).take(STEPS_MAX) {
            let Some(left) = room.checked_sub(step.topics.len()) else { break };
            (room, kept) = (left, kept + 1);
        }
        if kept == 0 {
            return Self::default();
        }
        let (_, former) = former.split_at(former.len() + 1 - kept);
        Self(former.iter().cloned().chain([step]).collect())
    }
}

impl RouteInfo {
    /// A registration took a broker name from one version to the next and touched these topics only.
    pub(super) fn note_step(
        &mut self,
        broker: &Name,
        from: Position,
        to: Position,
        topics: impl Iterator<Item = Name>,
    ) {
        // One more than there is room for is as good as all.
        let step = Step { from, to, topics: topics.take(NAMES_MAX + 1).collect() };
        match self.steps.get_mut(broker) {
            Some(steps) => *steps = steps.and(step),
            None => {
                self.steps.insert(broker.clone(), Steps::default().and(step));
            }
        }
    }

    /// The topics whose queues on a broker name may differ from those that it had at a group version of before. All
    /// others, and the addresses, flags and zone of the name, are as they were then, and so are the settings that
    /// registration reads. `None` when that is not known.
    #[must_use]
    pub fn topics_changed_since(&self, broker: &str, version: Position) -> Option<Vec<Name>> {
        let current = self.group_version(broker);
        if version == current {
            return Some(Vec::new());
        }
        let steps = &*self.steps.get(broker)?.0;
        let first = steps.iter().position(|step| step.from == version)?;
        let steps = steps.get(first..)?;
        if steps.last()?.to != current {
            return None;
        }
        Some(steps.iter().flat_map(|step| step.topics.iter().cloned()).collect())
    }
}
