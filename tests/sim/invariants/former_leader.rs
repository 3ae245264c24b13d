//! No removal by a former leader: a removal takes effect only in the term in which it was decided, and only the leader
//! of that term decides. There is one leader to a term.

use crate::record::Removed;
use raft::NodeId;
use std::collections::BTreeMap;
use storage::{Change, Command, LogId, Vote};

#[derive(Default)]
pub(crate) struct FormerLeader {
    leaders: BTreeMap<u64, NodeId>,
    entries: BTreeMap<LogId, Vec<Command>>,
}

impl FormerLeader {
    pub(crate) fn voted(&mut self, node: NodeId, vote: Vote) -> Result<(), String> {
        if !vote.committed {
            return Ok(());
        }
        let leader = *self.leaders.entry(vote.term).or_insert(vote.node);
        if leader != vote.node {
            let (term, other) = (vote.term, vote.node);
            return Err(format!("node {node} follows node {other} in term {term}, whose leader is {leader}"));
        }
        Ok(())
    }

    pub(crate) fn leader(&self, term: u64) -> Option<NodeId> {
        self.leaders.get(&term).copied()
    }

    pub(crate) fn appended(&mut self, id: LogId, commands: Vec<Command>) {
        self.entries.insert(id, commands);
    }

    pub(crate) fn applied(&self, id: LogId, removed: &[Removed]) -> Result<(), String> {
        for gone in removed {
            let commands = self.entries.get(&id).into_iter().flatten();
            let decided = commands.filter_map(|command| match &command.change {
                Change::RemoveBrokers(removal)
                    if removal.brokers.iter().any(|broker| broker.address == gone.key.address) =>
                {
                    Some((command.origin.node, removal.decided_in_term))
                }
                _ => None,
            });
            let by: Vec<_> = decided.collect();
            let leader = self.leader(id.term);
            if !by.iter().any(|(node, term)| *term == Some(id.term) && Some(*node) == leader) {
                return Err(format!(
                    "{} was removed at {id}, where node {leader:?} leads; decided by (node, term) {by:?}",
                    gone.key.address
                ));
            }
        }
        Ok(())
    }
}
