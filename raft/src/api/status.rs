//! What a node reports of itself.

use crate::api::{Member, NodeId};
use std::time::Duration;
use storage::LogId;

/// The leader, as this node knows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeaderState {
    /// Current term.
    pub term: u64,
    /// Its leader, when known.
    pub leader: Option<NodeId>,
    /// This node leads *and* has applied the first entry of its own term. Whether its quorum lease is still
    /// valid must be asked at the moment of a decision: [`crate::Node::is_leader_with_lease`].
    pub leading: bool,
}

/// Where a node is between its start and its end, and so whether it may answer look-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No cluster yet: waits for the bootstrap, or for a member to add this node.
    Waiting,
    /// Started; has not yet applied what the leader had committed at its first contact.
    Recovering,
    /// Has applied that: may answer.
    Recovered,
    /// No longer a member.
    Removed,
    /// Stopping.
    Stopping,
}

/// What a node reports of itself.
#[derive(Debug, Clone)]
pub struct Status {
    /// This node.
    pub node_id: NodeId,
    /// Random id of the cluster, drawn at the bootstrap.
    pub cluster_id: Option<u128>,
    /// Random id of the data directory.
    pub directory_id: u128,
    /// Whether it may answer look-ups.
    pub phase: Phase,
    /// The leader; `None` as well without recent contact, or when it has no majority.
    pub leadership: LeaderState,
    /// Time since the last contact with a leader (zero on the leader with a valid lease); `None` before the first.
    pub since_leader_contact: Option<Duration>,
    /// Members, voters first.
    pub members: Vec<MemberStatus>,
    /// Last entry of the log.
    pub last: Option<LogId>,
    /// Last entry known to be committed.
    pub committed: Option<LogId>,
    /// Last applied entry.
    pub applied: Option<LogId>,
    /// How far it is behind the leader.
    pub lag: Lag,
    /// Last purged entry.
    pub purged: Option<LogId>,
    /// Last entry of the newest snapshot.
    pub snapshot: Option<LogId>,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Hash of the state in the newest snapshot, with the last entry in it.
    pub state_hash: Option<(LogId, u128)>,
    /// Nodes whose state hash differed from this node's at the same entry: an alarm.
    pub diverged: Vec<NodeId>,
    /// How late the timers of consensus have been.
    pub tick_lateness: TickLateness,
    /// Operator alerts: why the node waits or refuses, in sentences with the command to run; empty when all is well.
    pub alerts: String,
}

/// How late the ticks of the runtime that consensus has for itself were, since the node started. Ticks that are later than
/// an election timeout cause elections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TickLateness {
    /// Ticks that were less late than each of [`Self::BOUNDS_MS`] and not less than the bound before; then all others.
    pub counts: [u64; Self::BOUNDS_MS.len() + 1],
    /// Of all ticks.
    pub sum: Duration,
}

impl TickLateness {
    /// Upper bounds, milliseconds.
    pub const BOUNDS_MS: [u64; 8] = [5, 10, 20, 50, 100, 200, 500, 1_000];
}

/// How far a node is behind the leader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lag {
    /// Entries that a leader has committed, as far as this node has heard, and this node has not applied.
    pub entries: u64,
    /// For how long this node has known the oldest of them to be committed, in running time.
    pub age: Duration,
    /// That is too long: it does not keep up with the leader.
    pub is_behind: bool,
    /// The disk is full, so this node takes no entries from the leader.
    pub disk_full: bool,
}

/// A member as this node knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    /// Id and peer address.
    pub member: Member,
    /// Votes (a learner only follows).
    pub voter: bool,
    /// A connection to it works (for this node itself: true).
    pub reachable: bool,
    /// On the leader: last entry known to be in its log.
    pub matched: Option<LogId>,
}
