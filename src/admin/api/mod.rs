//! The JSON API: what it answers. Field names are part of the interface; new ones may come.

use crate::liveness::GuardStatus;
use crate::node::RunningNode;
use crate::service::Ready;
use raft::{Member, MemberChange, MemberStatus, Standing, Status};
use serde::{Deserialize, Serialize};
use storage::RouteInfo;
use storage::route_info::BrokerKey;

/// `GET /api/v1/status`: a node's own account.
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
    /// `voter`, `learner` or what it waits for: `waiting`, `removed`, `stopping`.
    pub role: String,
    /// Whether it answers look-ups.
    pub ready: bool,
    /// Why not; empty when it does.
    pub not_ready_because: String,
    /// Whether it answers without a leader, so that answers may be old.
    pub stale: bool,
    /// Current term.
    pub term: u64,
    /// Leader of the term, when known.
    pub leader: Option<u64>,
    /// Whether that is this node, with all of its term applied.
    pub leading: bool,
    /// Milliseconds since a leader was last heard.
    pub since_leader_ms: Option<u64>,
    /// Index of the last applied entry.
    pub revision: Option<u64>,
    /// Index of the last entry of the log.
    pub last_index: Option<u64>,
    /// Index of the last entry known to be committed.
    pub committed_index: Option<u64>,
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
    /// Nodes whose tables differed from this node's at the same entry: an alarm.
    #[serde(default)]
    pub diverged_from: Vec<u64>,
    /// What an operator should know or do, in a sentence; empty when all is well.
    pub notice: String,
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

/// A member of the Raft group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberView {
    /// Node id.
    pub id: u64,
    /// Peer address.
    pub address: String,
    /// Whether it votes.
    pub voter: bool,
    /// Whether a connection to it works.
    pub reachable: bool,
    /// On the leader: index of the last entry known to be in its log.
    pub matched_index: Option<u64>,
}

/// `POST /api/v1/members`: one change of the membership. Answered, once it is done, with the members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "change", deny_unknown_fields)]
pub enum MemberChangeRequest {
    /// Take a waiting node in as a learner.
    Add {
        /// Its id, never used before.
        id: u64,
        /// `host:port` of its peer port.
        address: String,
    },
    /// Make a learner that has caught up a voter.
    Promote {
        /// Its id.
        id: u64,
    },
    /// Remove a member.
    Remove {
        /// Its id.
        id: u64,
    },
    /// Add a node and remove a dead one.
    Replace {
        /// The dead node.
        old: u64,
        /// Id of its successor, never used before.
        id: u64,
        /// `host:port` of the successor's peer port.
        address: String,
    },
}

impl From<MemberChangeRequest> for MemberChange {
    fn from(request: MemberChangeRequest) -> Self {
        match request {
            MemberChangeRequest::Add { id, address } => Self::AddLearner(Member { id, address }),
            MemberChangeRequest::Promote { id } => Self::Promote(id),
            MemberChangeRequest::Remove { id } => Self::Remove(id),
            MemberChangeRequest::Replace { old, id, address } => {
                Self::Replace { old, new: Member { id, address } }
            }
        }
    }
}

/// `GET /api/v1/brokers`: a registered broker process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BrokerView {
    /// Cluster.
    pub cluster: String,
    /// Broker name.
    pub broker: String,
    /// Broker id.
    pub id: i64,
    /// `ip:port`.
    pub address: String,
    /// HA address.
    pub ha_address: Option<String>,
    /// Milliseconds since it was last heard at any node, as this node knows.
    pub silence_ms: Option<u64>,
    /// Silence after which it expires, milliseconds.
    pub timeout_ms: u64,
    /// Topics of its name.
    pub topics: usize,
}

/// Whether look-ups are answered, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// Whether they are.
    pub ready: bool,
    /// Why not; empty when they are.
    pub reason: String,
    /// Answered without a leader, so that answers may be old.
    pub stale: bool,
}

impl Readiness {
    /// Of a running node.
    pub(crate) fn of(running: &RunningNode) -> Self {
        let now = *running.service.ready().borrow();
        let reason = if now == Ready::No { not_ready_because(&running.node.status()) } else { String::new() };
        Self { ready: now != Ready::No, reason, stale: now == Ready::Stale }
    }
}

fn not_ready_because(status: &Status) -> String {
    let why = match status.standing {
        Standing::Waiting => "waiting for the cluster to be born, or to be taken in",
        Standing::Recovering => "has not yet applied what the leader had committed",
        Standing::Recovered => "has heard no leader for longer than it may be stale",
        Standing::Removed => "is no longer a member",
        Standing::Stopping => "is stopping",
    };
    if status.notice.is_empty() { why.to_owned() } else { format!("{why}: {}", status.notice) }
}

impl StatusView {
    /// Puts together what the parts of a node say.
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
            since_leader_ms: status.since_leader.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
            revision: index(table.revision()),
            last_index: index(status.last),
            committed_index: index(status.committed),
            purged_index: index(status.purged),
            snapshot_index: index(status.snapshot),
            log_bytes: status.log_bytes,
            counts: CountsView::new(table),
            state_hash: None,
            members: status.members.iter().map(MemberView::new).collect(),
            diverged_from: status.diverged.clone(),
            notice: notice(&status.notice, guard),
        }
    }
}

/// What consensus says, and what an operator should know of the mass eviction guard while it keeps somebody.
fn notice(of_consensus: &str, guard: GuardStatus) -> String {
    let of_guard = guard.protected_for.filter(|_| guard.held > 0).map(|time| {
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

/// A time in seconds with tenths, for people.
pub(crate) fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

fn role(status: &Status) -> &'static str {
    match status.standing {
        Standing::Waiting => "waiting",
        Standing::Removed => "removed",
        Standing::Stopping => "stopping",
        Standing::Recovering | Standing::Recovered => {
            let own = status.members.iter().find(|m| m.member.id == status.node_id);
            if own.is_some_and(|m| m.voter) { "voter" } else { "learner" }
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

impl MemberView {
    /// What a node says of a member.
    #[must_use]
    pub fn new(member: &MemberStatus) -> Self {
        Self {
            id: member.member.id,
            address: member.member.address.clone(),
            voter: member.voter,
            reachable: member.reachable,
            matched_index: member.matched.map(|id| id.index),
        }
    }
}

/// All registered brokers, by cluster and address; `silence_ms` says how long one has not been heard.
#[must_use]
pub fn brokers(table: &RouteInfo, silence_ms: impl Fn(&BrokerKey) -> Option<u64>) -> Vec<BrokerView> {
    let view = |(key, live): (&BrokerKey, &storage::route_info::BrokerLiveInfo)| BrokerView {
        cluster: key.cluster.to_string(),
        broker: live.broker.to_string(),
        id: live.id,
        address: key.address.to_string(),
        ha_address: live.ha_address.as_ref().map(ToString::to_string),
        silence_ms: silence_ms(key),
        timeout_ms: live.timeout_ms,
        topics: table.topics_of(&live.broker).map_or(0, |topics| topics.len()),
    };
    table.live_brokers().map(view).collect()
}
