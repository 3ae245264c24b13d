//! openraft's handle, and what the other rooms read from its metrics.

use super::state_machine::StateMachine;
use super::types::{Types, log_id};
use crate::api::NodeId;
use openraft::async_runtime::watch::WatchReceiver;
use storage::LogId;

/// openraft's handle.
pub(crate) type Raft = openraft::Raft<Types, StateMachine>;

/// On the leader: the last entry known to be in the log of each other member, which openraft calls matched.
pub(crate) fn matched(raft: &Raft) -> Vec<(NodeId, Option<LogId>)> {
    let metrics = raft.metrics();
    let metrics = metrics.borrow_watched();
    let replication = metrics.replication.iter().flatten();
    replication.map(|(id, matched)| (*id, matched.as_ref().map(log_id))).collect()
}

/// Last entry known to be committed.
pub(crate) fn committed(raft: &Raft) -> Option<LogId> {
    let metrics = raft.metrics();
    let metrics = metrics.borrow_watched();
    metrics.local_committed.as_ref().map(log_id)
}
