//! For how long each node could count the silence of a dead broker: over restarts and changes of leaders.
//!
//! Left out is what docs/decisions/043 leaves out, and a little more where nothing can be known from outside:
//! - the time in which the node did not run, or had no majority, and a moment after it;
//! - the time in which it was cut off from another, as soon as that one is back;
//! - for a process that has just begun, all, until it has heard all others for a while. Then it has the shortest silence that
//!   the others have. While a voter is away, it inherits nothing.
//!
//! A registration that a node applies, and words that a node reads, begin it anew.

use crate::hearing::Hearing;
use crate::host::Moment;
use crate::node::NODES;
use raft::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use storage::route_info::BrokerKey;

/// Nodes that can speak with each other again do so within this, and a process that begins hears of all silences.
const SPEAKS_WITHIN: Duration = Duration::from_secs(1);
const INHERITS_WITHIN: Duration = Duration::from_secs(3);
/// What a node heard and has not told: a word waits up to three seconds behind another.
const NOT_TOLD: Duration = Duration::from_millis(3_500);

#[derive(Default)]
pub(crate) struct Silences {
    ears: BTreeMap<NodeId, Ears>,
    of: BTreeMap<BrokerKey, Silence>,
}

/// A node's process.
#[derive(Default)]
struct Ears {
    process: usize,
    majority_since: Option<Moment>,
    /// Others that are away, and since when they are back.
    away: BTreeMap<NodeId, Option<Moment>>,
    whole_since: Option<Moment>,
    inherited: bool,
}

/// A dead broker's.
#[derive(Default)]
struct Silence {
    /// When a node last read something from it.
    heard: Option<Moment>,
    counts: BTreeMap<NodeId, Count>,
}

#[derive(Default, Clone)]
struct Count {
    all: Duration,
    /// Of that, so much while another node was away.
    away: BTreeMap<NodeId, Duration>,
}

impl Silences {
    /// Those of these brokers are followed, each with the moment at which it was last heard.
    pub(crate) fn only(&mut self, dead: &BTreeMap<BrokerKey, Option<Moment>>) {
        self.of.retain(|key, _| dead.contains_key(key));
        for (key, heard) in dead {
            let silence = self.of.entry(key.clone()).or_default();
            if silence.heard < *heard {
                *silence = Silence { heard: *heard, ..Silence::default() };
            }
        }
    }

    /// A node applied a registration.
    pub(crate) fn registered(&mut self, node: NodeId, key: &BrokerKey) {
        if let Some(silence) = self.of.get_mut(key) {
            silence.counts.remove(&node);
        }
    }

    /// Time goes on; it did so `every` ago.
    pub(crate) fn step(&mut self, now: Moment, every: Duration, hearing: &Hearing) {
        for node in NODES {
            self.listens(now, every, node, hearing);
        }
        for node in NODES {
            self.inherits(now, node);
        }
    }

    fn listens(&mut self, now: Moment, every: Duration, node: NodeId, hearing: &Hearing) {
        let Some((process, sight)) = hearing.sight(node) else { return };
        let ears = self.ears.entry(node).or_default();
        if ears.process != process {
            *ears = Ears { process, ..Ears::default() };
            self.of.values_mut().for_each(|silence| drop(silence.counts.remove(&node)));
        }
        if !sight.runs {
            return;
        }
        let majority = sight.fair && (sight.speaks_with.len() + 1) * 2 > NODES.len();
        ears.majority_since = ears.majority_since.filter(|_| majority).or(majority.then_some(now));
        for other in NODES.into_iter().filter(|other| *other != node) {
            let linked = sight.fair && sight.speaks_with.contains(&other);
            ears.sees(
                now,
                other,
                linked,
                &mut self.of.values_mut().map(|of| of.counts.entry(node).or_default()),
            );
        }
        ears.whole_since =
            ears.whole_since.filter(|_| ears.away.is_empty()).or(ears.away.is_empty().then_some(now));
        if ears.majority_since.is_some_and(|since| now >= since + SPEAKS_WITHIN) {
            for silence in self.of.values_mut() {
                let count = silence.counts.entry(node).or_default();
                count.all += every;
                ears.away.keys().for_each(|other| *count.away.entry(*other).or_default() += every);
            }
        }
    }

    fn inherits(&mut self, now: Moment, node: NodeId) {
        let Some(ears) = self.ears.get_mut(&node).filter(|ears| !ears.inherited) else { return };
        if ears.whole_since.is_none_or(|since| now < since + INHERITS_WITHIN) {
            return;
        }
        ears.inherited = true;
        for silence in self.of.values_mut() {
            let all = |other: &NodeId| silence.counts.get(other).map_or(Duration::ZERO, |count| count.all);
            let told = NODES.iter().filter(|other| **other != node).map(all).min().unwrap_or_default();
            let count = silence.counts.entry(node).or_default();
            count.all = count.all.max(told);
        }
    }

    /// The brokers that a leader, elected then, has been able to count out: their timeouts have passed, those of which
    /// another node may hear after that one went away.
    pub(crate) fn overdue<'a>(
        &'a self,
        now: Moment,
        (leader, elected): (NodeId, Moment),
        timeouts: impl Iterator<Item = (&'a BrokerKey, Duration)>,
    ) -> BTreeSet<BrokerKey> {
        let Some(ears) = self.ears.get(&leader) else { return BTreeSet::new() };
        if ears.majority_since.is_none_or(|since| now < since + SPEAKS_WITHIN) {
            return BTreeSet::new();
        }
        let over = timeouts.filter(|(key, timeout)| {
            let Some(count) = self.of.get(key).and_then(|silence| silence.counts.get(&leader)) else {
                return false;
            };
            let away = |other: &NodeId| {
                let away = count.away.get(other).copied().unwrap_or_default();
                away.saturating_sub(NOT_TOLD).min(now - elected)
            };
            count.all >= *timeout && ears.away.keys().all(|other| away(other) >= *timeout)
        });
        over.map(|(key, _)| key.clone()).collect()
    }
}

impl Ears {
    /// Whether another node is there. When it is back, what was counted meanwhile counts no more.
    fn sees<'a>(
        &mut self,
        now: Moment,
        other: NodeId,
        linked: bool,
        counts: &mut impl Iterator<Item = &'a mut Count>,
    ) {
        match self.away.get_mut(&other) {
            None if linked => {}
            None => {
                self.away.insert(other, None);
                for count in counts {
                    count.away.insert(other, NOT_TOLD);
                }
            }
            Some(back) if !linked => *back = None,
            Some(back) => {
                if now >= *back.get_or_insert(now) + SPEAKS_WITHIN {
                    self.away.remove(&other);
                    for count in counts {
                        let lost = count.away.remove(&other).unwrap_or_default();
                        count.all = count.all.saturating_sub(lost);
                    }
                }
            }
        }
    }
}
