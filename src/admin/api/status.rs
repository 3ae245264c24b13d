//! The status of a node.

use super::members::MemberView;
use super::readiness::Readiness;
use crate::liveness::GuardStatus;
use raft::{Phase, Status};
use serde::{Deserialize, Serialize};
use storage::RouteInfo;

/// `GET /api/v1/status`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusView {
    /// Version of the program.
    pub version: String,
    /// This node.
    pub node_id: u64,
    /// Id of the cluster, hexadecimal.
    pub cluster_id: Option<String>,
    /// Id of the data directory, hexadecimal.
    pub directory_id: String,
    /// `voter` or `learner`; for a node that is no member `waiting`, `removed` or `stopping`.
    pub role: String,
    /// Whether this node answers look-ups.
    pub ready: bool,
    /// Why not; empty when it does.
    pub not_ready_because: String,
    /// Whether it answers without a leader, so that responses may be stale.
    pub stale: bool,
    /// Current term.
    pub term: u64,
    /// Leader of the term, when known.
    pub leader: Option<u64>,
    /// Whether this node is the leader and has applied the first entry of its term.
    pub leading: bool,
    /// Milliseconds since the last message from a leader.
    pub since_leader_ms: Option<u64>,
    /// Index of the last applied entry.
    pub revision: Option<u64>,
    /// Index of the last entry of the log.
    pub last_index: Option<u64>,
    /// Index of the last entry known to be committed.
    pub committed_index: Option<u64>,
    /// Entries that the leader has committed and this node has not applied.
    #[serde(default)]
    pub lag_entries: u64,
    /// Milliseconds since this node heard that the oldest of them is committed.
    #[serde(default)]
    pub lag_ms: u64,
    /// Index of the last purged entry.
    pub purged_index: Option<u64>,
    /// Index of the last entry in the newest snapshot.
    pub snapshot_index: Option<u64>,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Topics, brokers, broker names and clusters in the tables.
    pub counts: CountsView,
    /// Hash of all tables at `revision`, hexadecimal; only with `?hash=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_hash: Option<String>,
    /// Members, voters first.
    pub members: Vec<MemberView>,
    /// Nodes whose tables differed from those of this node at the same entry: an alarm.
    #[serde(default)]
    pub diverged_from: Vec<u64>,
    /// What an operator should know or do, in a sentence; empty when all is well.
    pub alert: String,
}

/// Sizes of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CountsView {
    /// Topics.
    pub topics: usize,
    /// Broker processes.
    pub brokers: usize,
    /// Broker names.
    pub broker_names: usize,
    /// Clusters.
    pub clusters: usize,
}

impl StatusView {
    /// Puts the status together from the parts of a node.
    #[must_use]
    pub fn new(status: &Status, readiness: &Readiness, guard: GuardStatus, table: &RouteInfo) -> Self {
        let index = |id: Option<storage::LogId>| id.map(|id| id.index);
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node_id: status.node_id,
            cluster_id: status.cluster_id.map(|id| format!("{id:032x}")),
            directory_id: format!("{:032x}", status.directory_id),
            role: role(status).to_owned(),
            ready: readiness.ready,
            not_ready_because: readiness.reason.clone(),
            stale: readiness.stale,
            term: status.leadership.term,
            leader: status.leadership.leader,
            leading: status.leadership.leading,
            since_leader_ms: status
                .since_leader_contact
                .map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
            revision: index(table.revision()),
            last_index: index(status.last),
            committed_index: index(status.committed),
            lag_entries: status.lag.entries,
            lag_ms: u64::try_from(status.lag.age.as_millis()).unwrap_or(u64::MAX),
            purged_index: index(status.purged),
            snapshot_index: index(status.snapshot),
            log_bytes: status.log_bytes,
            counts: CountsView::new(table),
            state_hash: None,
            members: status.members.iter().map(MemberView::new).collect(),
            diverged_from: status.diverged.clone(),
            alert: alert(&status.alerts, guard),
        }
    }
}

/// The alert of consensus, and that of the mass eviction guard while it keeps brokers.
fn alert(of_consensus: &str, guard: GuardStatus) -> String {
    let of_guard = guard.active_for.filter(|_| guard.held > 0).map(|time| {
        format!(
            "the mass eviction guard has kept {} brokers, which seem to be gone, for {} s now: is the network between \
             them and all nodes down? massEvictionGuard=false lets them go",
            guard.held,
            time.as_secs()
        )
    });
    match of_guard {
        Some(of_guard) if of_consensus.is_empty() => of_guard,
        Some(of_guard) => format!("{of_consensus}; {of_guard}"),
        None => of_consensus.to_owned(),
    }
}

fn role(status: &Status) -> &'static str {
    match status.phase {
        Phase::Waiting => "waiting",
        Phase::Removed => "removed",
        Phase::Stopping => "stopping",
        Phase::Recovering | Phase::Recovered => {
            let this_node = status.members.iter().find(|m| m.member.id == status.node_id);
            if this_node.is_some_and(|m| m.voter) { "voter" } else { "learner" }
        }
    }
}

impl CountsView {
    /// Counts a table.
    #[must_use]
    pub fn new(table: &RouteInfo) -> Self {
        Self {
            topics: table.topics().len(),
            brokers: table.live_brokers().len(),
            broker_names: table.groups().len(),
            clusters: table.clusters().len(),
        }
    }
}
