//! How a node takes part.

use crate::api::{Member, NodeId};
use std::time::Duration;
use storage::Command;

/// How a node takes part.
#[derive(Debug, Clone)]
pub struct Options {
    /// This node.
    pub node_id: NodeId,
    /// The members named at the start. Used for the bootstrap; afterwards contacts only.
    pub members: Vec<Member>,
    /// Heartbeats and elections.
    pub timing: Timing,
    /// Shared secret of the peer protocol; all nodes must have the same.
    pub secret: Vec<u8>,
    /// The first commands of a new cluster; must be the same on all nodes at the bootstrap.
    pub initial_commands: Vec<Command>,
    /// When snapshots are made and the log is purged.
    pub snapshots: SnapshotPolicy,
    /// Most commands in a log entry.
    pub batch_commands_max: usize,
}

impl Options {
    /// See `batch_commands_max`.
    pub const BATCH_COMMANDS_MAX: usize = 512;
}

/// Raft's timing, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Between two heartbeats of a leader.
    pub heartbeat_ms: u64,
    /// Shortest election timeout.
    pub election_min_ms: u64,
    /// Longest election timeout: the leader's lease.
    pub election_max_ms: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self { heartbeat_ms: 100, election_min_ms: 250, election_max_ms: 500 }
    }
}

/// When a snapshot is made: at the first of these limits. The log is purged behind the older of the two kept snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotPolicy {
    /// Log bytes since the last snapshot.
    pub log_bytes: u64,
    /// Entries since the last snapshot.
    pub entries: u64,
    /// Age of the last snapshot, when entries came since.
    pub age: Duration,
    /// Log bytes that may be kept for a voter that lags behind.
    pub log_bytes_max: u64,
}

impl Default for SnapshotPolicy {
    fn default() -> Self {
        Self {
            log_bytes: 64 << 20,
            entries: 50_000,
            age: Duration::from_secs(3600),
            log_bytes_max: 512 << 20,
        }
    }
}
