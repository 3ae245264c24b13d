//! A registration that was answered with success was in the table of the node that answered, at some moment between
//! question and answer.

use crate::host::Moment;
use crate::record::Seen;
use raft::NodeId;
use std::collections::BTreeMap;
use storage::route_info::BrokerKey;

#[derive(Default)]
pub(crate) struct RegisteredIsKnown {
    /// When a broker last left the tables of a node.
    left: BTreeMap<(NodeId, BrokerKey), Moment>,
}

impl RegisteredIsKnown {
    pub(crate) fn left(&mut self, now: Moment, node: NodeId, key: &BrokerKey) {
        self.left.insert((node, key.clone()), now);
    }
}

impl Seen {
    pub(crate) fn answered(&mut self, asked: Moment, now: Moment, node: NodeId, key: &BrokerKey) {
        let left = self.known.left.get(&(node, key.clone())).copied();
        // A node that is down by now may have had it.
        if self.has(node, key) || left.is_some_and(|left| left >= asked) || !self.present.contains_key(&node)
        {
            return;
        }
        self.violated(Err(format!(
            "node {node} answered a registration of {} with success between {asked:?} and {now:?}, and did not have \
             it (left: {left:?})",
            key.address
        )));
    }
}
