//! Which brokers are alive: the sessions of this node, reports to every voter, the ledger of last-heard, and the
//! removals that a leader decides from it. Soft state: nothing here is stored, and removals are log entries.

use raft::{NodeId, PeerMessages};
use std::sync::Arc;
use storage::Position;
use storage::route_info::BrokerKey;
use storage::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A connection of this node, numbered since the process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// What was heard of a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// REGISTER_BROKER that was accepted: the session is strong from now on.
    Register,
    /// BROKER_HEARTBEAT or QUERY_DATA_VERSION: the session is weak unless it is strong already.
    Heartbeat,
}

/// Who ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosedBy {
    /// The peer: close, reset, keep-alive or user time-out.
    Peer,
    /// We did: idle, limit, broken frame, stop. Removes nobody.
    Us,
}

/// The leader's word on a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// In the table, and no removal is under way.
    Known {
        /// The leader's term.
        term: u64,
        /// The broker's incarnation at the leader.
        incarnation: Position,
        /// The leader's applied index: answer once this node has applied that.
        applied: u64,
    },
    /// Not in the table, or a removal is proposed and not yet applied.
    Unknown,
    /// The leader cannot say now (no leader, no lease, own term not applied), or did not answer by the deadline.
    NotNow,
}

/// Settings of liveness.
#[derive(Debug, Clone)]
pub struct LivenessOptions {
    /// This node.
    pub node_id: NodeId,
    /// Mass eviction guard on or off.
    pub guard: bool,
    /// Share of the brokers, percent, above which removals within the window wait.
    pub guard_share_percent: u32,
}

/// The handle that connections and the service use. Clones are the same.
#[derive(Clone)]
pub struct Liveness {}

impl Liveness {
    /// Makes it, with the handler of other nodes' messages, and the connections that must be closed since
    /// their broker expired.
    #[must_use]
    pub fn new(
        _options: LivenessOptions,
        _runtime: Arc<dyn Runtime>,
    ) -> (Self, Arc<dyn PeerMessages>, mpsc::UnboundedReceiver<SessionId>) {
        unreachable!("not built yet")
    }

    /// Starts reporting and deciding.
    pub fn start(&self, _node: raft::Node) {}

    /// A broker was heard on a connection (oneway requests too).
    pub fn heard(&self, _session: SessionId, _broker: BrokerKey, _what: Heard) {}

    /// Asks the leader whether it knows the broker: an unchanged REGISTER is answered only when it does.
    /// Goes out at once.
    pub async fn confirm(&self, _broker: &BrokerKey, _deadline: Instant) -> Known {
        Known::NotNow
    }

    /// The leader's last word on a broker, without asking.
    #[must_use]
    pub fn last_word(&self, _broker: &BrokerKey) -> Option<Known> {
        None
    }

    /// A connection is over, and all registrations that were in flight on it have their outcome.
    pub fn closed(&self, _session: SessionId, _by: ClosedBy) {}

    /// Milliseconds since a broker was last heard anywhere, as this node's ledger has it.
    #[must_use]
    pub fn silence_ms(&self, _broker: &BrokerKey) -> Option<u64> {
        None
    }
}
