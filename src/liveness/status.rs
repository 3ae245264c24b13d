//! What liveness says of itself: for the command line, the admin API and metrics.

use raft::NodeId;
use std::time::Duration;

/// How firmly a connection belongs to a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Strength {
    /// After a BROKER_HEARTBEAT or QUERY_DATA_VERSION.
    Weak,
    /// After an accepted REGISTER_BROKER.
    Strong,
}

/// Everything that a node knows of liveness.
#[derive(Debug, Clone, Default)]
pub struct LivenessStatus {
    /// The other nodes, by id; at the leader only.
    pub nodes: Vec<NodeStatus>,
    /// Mass eviction guard.
    pub guard: GuardStatus,
    /// Counters since the process started.
    pub counters: Counters,
}

/// What a scrape asks for: nothing that grows with the brokers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Mass eviction guard.
    pub guard: GuardStatus,
    /// Counters since the process started.
    pub counters: Counters,
}

/// Another node as its reports show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeStatus {
    /// The node.
    pub node: NodeId,
    /// It reported within the last second.
    pub reachable: bool,
    /// Since its last report; `None` when this leader has had none.
    pub since_report: Option<Duration>,
    /// Brokers with a session there.
    pub sessions: usize,
}

/// The mass eviction guard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GuardStatus {
    /// Switched on.
    pub enabled: bool,
    /// For how long it has been holding removals back; `None` while it does not.
    pub active_for: Option<Duration>,
    /// Brokers that it keeps; at the leader only.
    pub held: usize,
}

/// Counters since the process started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Heartbeats of brokers on connections of this node.
    pub heartbeats: u64,
    /// Reports sent to the leader.
    pub reports_sent: u64,
    /// Reports that got no answer.
    pub reports_failed: u64,
    /// Full reports sent (a new leader, a gap, an overflow).
    pub full_reports_sent: u64,
    /// Reports received.
    pub reports_received: u64,
    /// Reports received that did not follow the one before: a full report was asked for.
    pub report_gaps: u64,
    /// Removals by expiry that this node applied.
    pub expired: u64,
    /// Removals by disconnect that this node applied.
    pub disconnected: u64,
    /// Removal proposals that failed and were decided anew.
    pub removals_retried: u64,
    /// Times that this process did not run for longer than the allowed lateness.
    pub pauses: u64,
    /// Heartbeats refused with SYSTEM_BUSY, since no further session fits.
    pub sessions_refused: u64,
}
