//! Equal revisions, equal hashes: what stands at an index is the same at all nodes, in all their lives, and so are the
//! tables after it.

use raft::{AppliedEntry, NodeId};
use std::collections::BTreeMap;
use storage::RouteInfo;
use storage::outcome::Event;

#[derive(Default)]
pub(crate) struct OneHistory {
    entries: BTreeMap<u64, (NodeId, u64, Vec<Event>)>,
    hashes: BTreeMap<u64, (NodeId, u64, u128)>,
    /// The last revision whose hash was taken, by node.
    hashed: BTreeMap<NodeId, u64>,
}

impl OneHistory {
    pub(crate) fn applied(&mut self, node: NodeId, entry: &AppliedEntry) -> Result<(), String> {
        let id = entry.id;
        let first = self.entries.entry(id.index).or_insert_with(|| (node, id.term, entry.events.clone()));
        if (first.1, &first.2) != (id.term, &entry.events) {
            return Err(format!(
                "at index {} node {} applied an entry of term {} with {:?}, node {node} one of term {} with {:?}",
                id.index, first.0, first.1, first.2, id.term, entry.events
            ));
        }
        Ok(())
    }

    pub(crate) fn table(&mut self, node: NodeId, table: &RouteInfo) -> Result<(), String> {
        let Some(id) = table.revision() else { return Ok(()) };
        if self.hashed.insert(node, id.index) == Some(id.index) {
            return Ok(());
        }
        table.check_invariants().map_err(|error| format!("tables of node {node} at {id}: {error}"))?;
        let hash = table.state_hash().total;
        let first = *self.hashes.entry(id.index).or_insert((node, id.term, hash));
        if (first.1, first.2) != (id.term, hash) {
            return Err(format!("the tables of nodes {} and {node} differ at {id}", first.0));
        }
        Ok(())
    }
}
