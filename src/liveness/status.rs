//! What liveness says of itself: for the command line, the admin API and metrics.

use raft::NodeId;
use std::time::Duration;
use storage::command::Name;
use storage::route_info::BrokerKey;

/// How firmly a connection belongs to a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Strength {
    /// After a BROKER_HEARTBEAT or QUERY_DATA_VERSION.
    Weak,
    /// After an accepted REGISTER_BROKER.
    Strong,
}

/// Everything, as this node's ledger has it.
#[derive(Debug, Clone, Default)]
pub struct LivenessStatus {
    /// Brokers of the table, by cluster and address.
    pub brokers: Vec<BrokerStatus>,
    /// The other members, by id.
    pub peers: Vec<PeerStatus>,
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

/// A broker of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerStatus {
    /// Cluster and address.
    pub key: BrokerKey,
    /// Broker name.
    pub broker: Name,
    /// Since it was last heard anywhere.
    pub silence: Duration,
    /// Silence after which it expires.
    pub timeout: Duration,
    /// Its strongest session at each node that has one.
    pub sessions: Vec<(NodeId, Strength)>,
    /// Its last strong session was ended by the peer; it goes when no session is left.
    pub disconnected: bool,
    /// The mass eviction guard keeps it for now.
    pub held: bool,
}

/// Another member's stream of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerStatus {
    /// The node.
    pub node: NodeId,
    /// Its stream spoke within the last second.
    pub reachable: bool,
    /// Since its stream spoke; `None` when it never did since this process started.
    pub since_spoke: Option<Duration>,
    /// Brokers with a session there.
    pub sessions: usize,
}

/// The mass eviction guard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GuardStatus {
    /// Switched on.
    pub enabled: bool,
    /// Since when it holds removals back; `None` while it does not.
    pub protected_for: Option<Duration>,
    /// Brokers that it keeps.
    pub held: usize,
}

/// Counters since the process started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Brokers heard on connections of this node.
    pub heard: u64,
    /// Reports sent to other nodes.
    pub reports_sent: u64,
    /// Reports that got no answer.
    pub reports_failed: u64,
    /// Full reports sent (a new stream, a gap, an overflow).
    pub full_reports_sent: u64,
    /// Reports received.
    pub reports_received: u64,
    /// Reports received that did not follow the one before: a full report was asked for.
    pub report_gaps: u64,
    /// Removals by expiry that this node applied, whoever decided them.
    pub expired: u64,
    /// Removals by disconnect that this node applied, whoever decided them.
    pub disconnected: u64,
    /// Removal proposals that failed and were decided anew.
    pub removals_retried: u64,
    /// Times that this process did not run for longer than the allowed lateness.
    pub pauses: u64,
    /// Words over connections beyond the limits, which are not followed.
    pub sessions_refused: u64,
    /// NOTIFY_MIN_BROKER_ID_CHANGE notices handed out.
    pub notices: u64,
}
