//! openraft's handle, and what the other rooms read from its metrics.

use super::state_machine::StateMachine;
use super::types::{Types, log_id};
use crate::api::NodeId;
use openraft::async_runtime::watch::WatchReceiver;
use std::collections::BTreeMap;
use std::time::Duration;
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

/// On the leader: for each other member, the time since it last answered a heartbeat or an append.
pub(crate) fn answered(raft: &Raft) -> BTreeMap<NodeId, Duration> {
    use openraft::Instant as _;
    let metrics = raft.metrics();
    let metrics = metrics.borrow_watched();
    let members = metrics.heartbeat.iter().flatten();
    members.filter_map(|(id, at)| Some((*id, at.as_ref()?.elapsed()))).collect()
}

/// Last entry known to be committed.
pub(crate) fn committed(raft: &Raft) -> Option<LogId> {
    let metrics = raft.metrics();
    let metrics = metrics.borrow_watched();
    metrics.local_committed.as_ref().map(log_id)
}
