//! Once faults are over: there is a leader, writes succeed, all nodes have the same tables and answer look-ups, living
//! brokers are in them and dead ones are not.

use crate::node::{NODES, SimNode};
use crate::record::Seen;
use raft::Phase;

/// `Err` tells what is still missing.
pub(crate) fn look(nodes: &[SimNode], seen: &Seen) -> Result<(), String> {
    let all: Vec<raft::Node> = nodes.iter().filter_map(SimNode::node).collect();
    if all.len() < NODES.len() {
        return Err("a node does not run".into());
    }
    if let Some(node) = NODES.iter().zip(nodes).find_map(|(id, node)| (!node.is_ready()).then_some(id)) {
        return Err(format!("node {node} answers no look-ups"));
    }
    let leaders: Vec<_> = all.iter().map(|node| node.leadership().borrow().leader).collect();
    if leaders[0].is_none() || leaders.iter().any(|leader| *leader != leaders[0]) {
        return Err(format!("no leader that all follow: {leaders:?}"));
    }
    let tables: Vec<_> = all.iter().map(raft::Node::table).collect();
    let revisions: Vec<_> = tables.iter().map(|table| table.revision()).collect();
    if revisions.iter().any(|revision| *revision != revisions[0]) {
        return Err(format!("revisions differ: {revisions:?}"));
    }
    let mut statuses = nodes.iter().filter_map(SimNode::status);
    if let Some(status) = statuses.find(|status| status.phase != Phase::Recovered) {
        return Err(format!("node {} is {:?}", status.node_id, status.phase));
    }
    for (table, node) in tables.iter().zip(NODES) {
        if let Some((key, _)) = seen.living.lives.iter().find(|(key, _)| table.live(key).is_none()) {
            return Err(format!("{} lives and is not in the tables of node {node}", key.address));
        }
        if let Some(key) = seen.dead.deaths.keys().find(|key| table.live(key).is_some()) {
            return Err(format!("{} is dead and in the tables of node {node}", key.address));
        }
        let value = |key: &str| table.kv(NAMESPACE, key).and_then(|v| v.parse().ok()).unwrap_or_default();
        seen.acknowledged.check(node, value)?;
    }
    Ok(())
}

/// Where clients write.
pub(crate) const NAMESPACE: &str = "sim";
