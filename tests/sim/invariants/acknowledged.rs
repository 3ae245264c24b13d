//! An acknowledged write is there, at once at the node that acknowledged it and for reads that go through the leader, and in
//! the end at all; and a node never shows an older value than it showed before.
//!
//! Each key has one writer, which writes 1, 2, 3… and tries each number once. A number whose outcome is not known may be
//! carried out at any later time: its request may wait in front of a process that stands still.

use raft::NodeId;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(crate) struct Acknowledged {
    keys: BTreeMap<String, Numbers>,
    pub(crate) writes: u64,
}

#[derive(Debug, Default)]
struct Numbers {
    tried: u64,
    acknowledged: u64,
    /// Tried, and not answered with success.
    unknown: BTreeSet<u64>,
    /// The largest that a node acknowledged or showed.
    at: BTreeMap<NodeId, u64>,
}

impl Numbers {
    /// Whether a value is no older than another, or one that came late.
    fn may_be(&self, number: u64, than: u64) -> bool {
        (than..=self.tried).contains(&number) || self.unknown.contains(&number)
    }
}

impl Acknowledged {
    /// The next number to write.
    pub(crate) fn tries(&mut self, key: &str) -> u64 {
        let numbers = self.keys.entry(key.into()).or_default();
        numbers.tried += 1;
        numbers.unknown.insert(numbers.tried);
        numbers.tried
    }

    pub(crate) fn wrote(&mut self, key: &str, node: NodeId, number: u64) {
        self.writes += 1;
        let numbers = self.keys.entry(key.into()).or_default();
        numbers.acknowledged = numbers.acknowledged.max(number);
        numbers.unknown.remove(&number);
        let at = numbers.at.entry(node).or_default();
        *at = number.max(*at);
    }

    /// What a node must show at least if it is asked now: what it showed before, or all that is acknowledged when it asks the
    /// leader.
    pub(crate) fn at_least(&self, key: &str, node: NodeId, linearizable: bool) -> u64 {
        let Some(numbers) = self.keys.get(key) else { return 0 };
        let shown = numbers.at.get(&node).copied().unwrap_or_default();
        if linearizable { shown.max(numbers.acknowledged) } else { shown }
    }

    /// What a node showed before counts no more.
    pub(crate) fn started(&mut self, node: NodeId) {
        self.keys.values_mut().for_each(|numbers| numbers.at.retain(|other, _| *other != node));
    }

    /// A node showed a number (0: none), asked when that was to be `before` at least.
    pub(crate) fn read(&mut self, key: &str, node: NodeId, before: u64, number: u64) -> Result<(), String> {
        let Some(numbers) = self.keys.get_mut(key) else { return Ok(()) };
        if !numbers.may_be(number, before) {
            return Err(format!("node {node} shows {number} under {key} after {before}: {numbers:?}"));
        }
        let at = numbers.at.entry(node).or_default();
        *at = number.max(*at);
        Ok(())
    }

    /// At the end.
    pub(crate) fn check(&self, node: NodeId, value: impl Fn(&str) -> u64) -> Result<(), String> {
        for (key, numbers) in &self.keys {
            let number = value(key);
            if !numbers.may_be(number, numbers.acknowledged) {
                return Err(format!("node {node} has {number} under {key} at the end: {numbers:?}"));
            }
        }
        Ok(())
    }
}
