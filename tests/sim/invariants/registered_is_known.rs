//! A registration that was answered with success was in the table of the node that answered, at some moment between
//! question and answer; and also in the newest table that any node had. It does not expire for idle time
//! before the question: the leader that confirmed it has its heartbeat, and had not decided its removal before.

use crate::host::Moment;
use crate::record::Seen;
use raft::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use storage::route_info::BrokerKey;

#[derive(Default)]
pub(crate) struct RegisteredIsKnown {
    /// When a broker last left the tables of a node.
    left: BTreeMap<(NodeId, BrokerKey), Moment>,
    /// The newest table that any node had: its index, its brokers, and when each of those that are gone left it.
    newest: u64,
    present: BTreeSet<BrokerKey>,
    gone: BTreeMap<BrokerKey, Moment>,
    /// When a broker last expired.
    expired: BTreeMap<BrokerKey, Moment>,
}

impl RegisteredIsKnown {
    pub(crate) fn left(&mut self, now: Moment, node: NodeId, key: &BrokerKey) {
        self.left.insert((node, key.clone()), now);
    }

    pub(crate) fn expired(&mut self, now: Moment, key: &BrokerKey) {
        self.expired.insert(key.clone(), now);
    }

    /// A broker registered by an entry that a node applied, and was gone from the first table that it showed then.
    pub(crate) fn passed(&mut self, now: Moment, node: NodeId, key: &BrokerKey) {
        self.left(now, node, key);
        self.gone.insert(key.clone(), now);
    }

    /// Gives the brokers that left the newest table.
    pub(crate) fn table(&mut self, now: Moment, index: u64, present: &BTreeSet<BrokerKey>) -> Vec<BrokerKey> {
        if index <= self.newest {
            return Vec::new();
        }
        self.newest = index;
        let before = std::mem::replace(&mut self.present, present.clone());
        let left: Vec<_> = before.difference(present).cloned().collect();
        self.gone.extend(left.iter().map(|key| (key.clone(), now)));
        left
    }

    /// Whether a broker is in the newest table.
    pub(crate) fn has(&self, key: &BrokerKey) -> bool {
        self.present.contains(key)
    }
}

impl Seen {
    pub(crate) fn answered(&mut self, asked: Moment, now: Moment, node: NodeId, key: &BrokerKey) {
        let since = |left: Option<&Moment>| left.is_some_and(|left| *left >= asked);
        let left = self.known.left.get(&(node, key.clone()));
        // A node that is down by now may have had it.
        let here = self.has(node, key) || since(left) || !self.present.contains_key(&node);
        let gone = self.known.gone.get(key);
        let newest = self.known.present.contains(key) || since(gone) && !since(self.known.expired.get(key));
        if here && newest {
            return;
        }
        self.violated(Err(format!(
            "node {node} answered a registration of {} with success between {asked:?} and {now:?}; in its table: {here} \
             (left {left:?}), in the newest: {newest} (left {gone:?})",
            key.address
        )));
    }
}
