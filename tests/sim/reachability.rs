//! What nodes could hear and decide: when each ran, and since when it sees the others as it does now.

use crate::host::Moment;
use raft::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;

/// A node that hears no other one for so long while it runs has lost its majority, however late its packets are.
const MAJORITY_LOST_AFTER: Duration = Duration::from_secs(2);

/// A node that stood still for so long does not take an old end for a word of the broker.
const LONG_PAUSE: Duration = Duration::from_millis(3_200);

/// Without a majority for so long, it may have lost it; not running for so long, it may take that for a long pause.
const MAYBE_LOST_AFTER: Duration = Duration::from_millis(500);
const MAYBE_LONG_PAUSE: Duration = Duration::from_millis(2_900);

/// For so long after such a time a node may not take an end for a word of the broker: old words may come before it.
const DOUBTED_AFTER_CUT: Duration = Duration::from_millis(11_500);
const DOUBTED_AFTER_PAUSE: Duration = Duration::from_secs(3);

/// What was so at a look is so now within this.
const STILL: Duration = Duration::from_millis(40);

/// A process of a node.
#[derive(Debug)]
struct Process {
    started: Moment,
    ended: Option<Moment>,
    /// Times in which it stood still.
    stood: Vec<(Moment, Moment)>,
    /// Times in which it heard no other node.
    alone: Vec<(Moment, Moment)>,
    /// Times in which it may have been without a majority.
    cut_off: Vec<(Moment, Moment)>,
}

/// Adds a moment to stretches of time; there was a look `every` ago.
fn extend(stretches: &mut Vec<(Moment, Moment)>, now: Moment, every: Duration) {
    let begin = now.saturating_sub(every);
    match stretches.last_mut() {
        Some((_, end)) if *end >= begin => *end = now,
        _ => stretches.push((begin, now)),
    }
}

impl Process {
    /// How long it ran between two moments without losing its majority: what was before counts for nothing after it.
    fn countable_idle(&self, from: Moment, to: Moment) -> Duration {
        let mut longest = Duration::ZERO;
        let mut from = from;
        for (begin, end) in self.alone.iter().filter(|(begin, end)| *end >= *begin + MAJORITY_LOST_AFTER) {
            if *end > from && *begin < to {
                longest = longest.max(self.ran(from, (*begin + MAJORITY_LOST_AFTER).min(to)));
                from = *end;
            }
        }
        longest.max(self.ran(from, to))
    }

    /// It did not lose its majority nor stand still for long, at any time from one moment to another, or not for certain.
    /// Before it found its first majority it had none to lose.
    fn is_steady(&self, from: Moment, to: Moment) -> bool {
        let longer = |stretches: &[(Moment, Moment)], than: Duration| {
            let before = |begin: &Moment| *begin <= self.started + STILL;
            let mut later = stretches.iter().filter(|(begin, _)| !before(begin));
            later.any(|(begin, end)| *end > from && *end >= *begin + than && *begin + than < to)
        };
        self.started <= from && !longer(&self.alone, MAJORITY_LOST_AFTER) && !longer(&self.stood, LONG_PAUSE)
    }

    /// Until when it may take an end for none of the broker.
    fn doubts_until(&self) -> Moment {
        let last = |stretches: &[(Moment, Moment)], least: Duration, after: Duration| {
            let long = stretches.iter().filter(|(begin, end)| *end >= *begin + least);
            long.map(|(_, end)| *end + after).max().unwrap_or_default()
        };
        last(&self.cut_off, MAYBE_LOST_AFTER, DOUBTED_AFTER_CUT).max(last(
            &self.stood,
            MAYBE_LONG_PAUSE,
            DOUBTED_AFTER_PAUSE,
        ))
    }

    /// How long it ran between two moments.
    fn ran(&self, from: Moment, to: Moment) -> Duration {
        let (from, to) = (from.max(self.started), self.ended.map_or(to, |ended| ended.min(to)));
        let stood = self.stood.iter().map(|(begin, end)| (*end).min(to).saturating_sub((*begin).max(from)));
        to.saturating_sub(from).saturating_sub(stood.sum())
    }
}

/// What a node sees of the nodes, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sight {
    /// It runs.
    pub(crate) runs: bool,
    /// Others that run, with which it can speak both ways.
    pub(crate) speaks_with: Vec<NodeId>,
    /// Others that run, with which it can speak one way only.
    pub(crate) half: Vec<NodeId>,
    /// Few packets are lost.
    pub(crate) fair: bool,
}

#[derive(Default)]
pub(crate) struct Reachability {
    processes: BTreeMap<NodeId, Vec<Process>>,
    sights: BTreeMap<NodeId, (Moment, Sight)>,
    /// The last leader that was elected, and when.
    leader: Option<(u64, NodeId, Moment)>,
}

impl Reachability {
    pub(crate) fn started(&mut self, now: Moment, node: NodeId) {
        self.processes.entry(node).or_default().push(Process {
            started: now,
            ended: None,
            stood: Vec::new(),
            alone: Vec::new(),
            cut_off: Vec::new(),
        });
        self.sights.remove(&node);
    }

    pub(crate) fn ended(&mut self, now: Moment, node: NodeId) {
        if let Some(process) = self.processes.get_mut(&node).and_then(|processes| processes.last_mut()) {
            process.ended.get_or_insert(now);
        }
        self.sights.remove(&node);
    }

    /// A look at a node; there was one `every` ago.
    pub(crate) fn look(&mut self, now: Moment, every: Duration, node: NodeId, sight: Sight) {
        if let Some(process) = self.processes.get_mut(&node).and_then(|processes| processes.last_mut()) {
            if !sight.runs {
                extend(&mut process.stood, now, every);
            } else if sight.speaks_with.is_empty() && sight.half.is_empty() {
                extend(&mut process.alone, now, every);
            }
            if sight.runs && (sight.speaks_with.is_empty() || !sight.fair) {
                extend(&mut process.cut_off, now, every);
            }
        }
        let before = self.sights.remove(&node).filter(|(_, before)| *before == sight);
        self.sights.insert(node, before.unwrap_or((now, sight)));
    }

    pub(crate) fn elected(&mut self, now: Moment, term: u64, node: NodeId) {
        if self.leader.is_none_or(|(newest, ..)| newest < term) {
            self.leader = Some((term, node, now));
        }
    }

    /// The node that was elected last.
    pub(crate) fn leader(&self) -> Option<NodeId> {
        self.leader.map(|(_, node, _)| node)
    }

    /// How much idle time a node could count at most between two moments. A process that began in between may have the
    /// reports of the others.
    pub(crate) fn countable_idle(&self, node: NodeId, from: Moment, to: Moment) -> Duration {
        let reported =
            self.processes.get(&node).and_then(|all| all.last()).is_some_and(|last| last.started > from);
        let whose = self.processes.iter().filter(|(other, _)| reported || **other == node);
        let processes = whose.flat_map(|(_, processes)| processes);
        processes.map(|process| process.countable_idle(from, to)).max().unwrap_or_default()
    }

    /// Whether a node, from one moment to another, neither lost its majority nor stood still for long. In doubt it did not.
    pub(crate) fn is_steady(&self, node: NodeId, from: Moment, to: Moment) -> bool {
        let processes = self.processes.get(&node).into_iter().flatten();
        processes
            .rev()
            .find(|process| process.started <= to)
            .is_some_and(|process| process.is_steady(from, to))
    }

    /// Whether each node takes an end now for what it is.
    pub(crate) fn ends_count(&self, now: Moment) -> bool {
        self.processes.values().filter_map(|all| all.last()).all(|process| process.doubts_until() <= now)
    }

    /// What a node sees, and which of its processes it is.
    pub(crate) fn sight(&self, node: NodeId) -> Option<(usize, &Sight)> {
        Some((self.processes.get(&node)?.len(), &self.sights.get(&node)?.1))
    }

    /// The leader that can decide, with a majority and some time since it was elected, and when that was.
    pub(crate) fn leads(&self, now: Moment, settles_in: Duration) -> Option<(NodeId, Moment)> {
        let (_, leader, elected) = self.leader?;
        (now >= elected + settles_in).then_some((leader, elected))
    }

    /// Since when a process has been running without reachability another node, if it does so now.
    pub(crate) fn alone_since(&self, now: Moment, node: NodeId) -> Option<Moment> {
        let (begin, end) = self.processes.get(&node)?.last()?.alone.last()?;
        (*end + STILL >= now).then_some(*begin)
    }

    /// Whether it was so at that moment, seen from a later look.
    pub(crate) fn is_alone_at(&self, at: Moment, node: NodeId) -> bool {
        let alone = self.processes.get(&node).and_then(|all| all.last()?.alone.last());
        alone.is_some_and(|(begin, end)| *begin <= at && *end >= at)
    }

    /// The leader that can decide, the nodes that see what it sees, and since when it knows of every broker what can be
    /// known. `None`: no node can decide, or the leader has only just begun.
    pub(crate) fn decider(&self, now: Moment, settles_in: Duration, nodes: usize) -> Option<Decider> {
        let (_, leader, elected) = self.leader?;
        let (since, sight) = self.sights.get(&leader)?;
        let majority = (sight.speaks_with.len() + 1) * 2 > nodes;
        if !sight.runs || !sight.fair || !majority || now < elected + settles_in {
            return None;
        }
        // It does not have what others reported to the leader before it, but for those that report to it too.
        let all = sight.speaks_with.len() + 1 == nodes;
        let knows_since = if all { *since } else { elected.max(*since) };
        let with = sight.speaks_with.iter().copied().filter(|node| {
            self.sights.get(node).is_some_and(|(_, sight)| sight.runs && sight.speaks_with.contains(&leader))
        });
        Some(Decider { knows_since, nodes: std::iter::once(leader).chain(with).collect() })
    }
}

/// See [`Reachability::decider`].
#[derive(Debug)]
pub(crate) struct Decider {
    pub(crate) knows_since: Moment,
    pub(crate) nodes: Vec<NodeId>,
}
