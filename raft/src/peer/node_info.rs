//! What a node states of itself in a handshake.

use crate::local::LocalNode;
use serde::{Deserialize, Serialize};
use storage::{LogId, Vote};

/// What this version can do beyond the protocol's base; none yet.
pub(crate) const CAPABILITIES: u64 = 0;

/// What a node states of itself in a handshake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeInfo {
    /// Its cluster; `None` before the bootstrap.
    pub(crate) cluster_id: Option<u128>,
    /// Its id.
    pub(crate) node_id: u64,
    /// Its data directory.
    pub(crate) directory_id: u128,
    /// What it can do beyond the base.
    pub(crate) capabilities: u64,
    /// Its vote.
    pub(crate) vote: Option<Vote>,
    /// Last entry of its log.
    pub(crate) last: Option<LogId>,
    /// Log id of its newest committed membership.
    pub(crate) members_at: Option<LogId>,
    /// Its log had an unsynced tail that was truncated at its start, and it has not caught up since.
    pub(crate) tail_truncated: bool,
}

impl NodeInfo {
    /// This node's, as of now.
    pub(crate) fn of(local: &LocalNode) -> Self {
        let log = local.log.state();
        Self {
            cluster_id: local.directory.cluster_id(),
            node_id: local.id(),
            directory_id: local.directory_id,
            capabilities: CAPABILITIES,
            vote: log.vote,
            last: log.last,
            members_at: local.members.load().committed.at,
            tail_truncated: local.directory.truncated_tail().is_some(),
        }
    }
}
