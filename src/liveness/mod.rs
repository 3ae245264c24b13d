//! Which brokers are alive.
//!
//! Each node keeps its own sessions and reports them to the leader; only the leader keeps leases and decides which brokers
//! are gone. All of that is soft state: removals, and begin and end of the mass eviction guard, are log entries.
//!
//! `driver`, `tasks` → `tracker` → `sessions`, `reporter` (every node) and `leader` → `nodes`, `leases`, `disconnects`,
//! `removals`, `guard`. Nothing but `driver` and `tasks` waits, spawns or reads a clock.

mod clock;
mod disconnects;
mod driver;
mod guard;
mod leader;
mod leases;
mod messages;
mod nodes;
mod removals;
mod reporter;
mod sessions;
mod status;
mod tasks;
mod tracker;

#[cfg(test)]
mod tests;

pub use status::{Counters, GuardStatus, LivenessStatus, NodeStatus, Strength, Totals};

use driver::Driver;
use raft::{NodeId, PeerMessages};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use storage::Position;
use storage::route_info::BrokerKey;
use storage::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A connection of this node, numbered since the process started. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosedBy {
    /// The peer ended it: close, reset, keep-alive or user time-out.
    Peer,
    /// This node ended it: idle, limit, broken frame, stop. Removes no broker.
    ThisNode,
}

/// The table of sessions is full: the request is to be refused with SYSTEM_BUSY.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no further session fits this node's table of sessions")]
pub struct SessionsFull;

/// The leader's answer about a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationStatus {
    /// In the table, and no removal is proposed.
    Registered {
        /// The leader's term.
        term: u64,
        /// The broker's incarnation at the leader.
        incarnation: Position,
        /// The leader's applied index: answer once this node has applied that.
        applied: u64,
    },
    /// Not in the table, and no removal is proposed any more: what is proposed now comes after it.
    NotRegistered,
    /// The leader cannot say now (no leader, no lease, own term not applied), or did not answer by the deadline.
    NotNow,
}

/// How long brokers have been idle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdleTimes {
    /// As the leader knows it from all nodes; otherwise only this node's own sessions count.
    pub everywhere: bool,
    /// Milliseconds since the last heartbeat.
    pub idle_ms: BTreeMap<BrokerKey, u64>,
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
    /// How long removals count together.
    pub guard_window: Duration,
    /// How long a broker is kept at most after its own timeout has passed.
    pub guard_hold: Duration,
    /// Pairs of a connection and a broker that this node tracks. Further brokers are refused with SYSTEM_BUSY.
    pub sessions_max: usize,
}

impl LivenessOptions {
    /// The defaults: guard on, 60 % within 10 s, kept for 10 minutes.
    #[must_use]
    pub fn new(node_id: NodeId) -> Self {
        Self {
            node_id,
            guard: true,
            guard_share_percent: 60,
            guard_window: Duration::from_secs(10),
            guard_hold: Duration::from_secs(600),
            sessions_max: 65_536,
        }
    }
}

/// What [`Liveness::new`] makes.
pub struct Parts {
    /// The handle.
    pub liveness: Liveness,
    /// Takes the messages of other nodes: give it to `raft::Node::open`.
    pub messages: Arc<dyn PeerMessages>,
    /// Connections to close since a broker of theirs expired (answer the close with [`ClosedBy::ThisNode`]).
    pub expired: mpsc::UnboundedReceiver<SessionId>,
}

/// The handle that connections and the service use. Clones are the same.
///
/// A registration that changes nothing: a strong [`heartbeat`](Self::heartbeat) first, then [`confirm`](Self::confirm), so
/// that the leader sees the session before it answers. One that changes something: a weak heartbeat when it arrives (its
/// connection speaks, whatever becomes of it), propose, then a strong one when it was accepted. A connection's
/// [`close`](Self::close) comes last of all.
#[derive(Clone)]
pub struct Liveness {
    driver: Arc<Driver>,
}

impl Liveness {
    /// Makes it. Until [`start`](Self::start) it only listens.
    #[must_use]
    #[allow(clippy::new_ret_no_self, reason = "the handle is one of several parts")]
    pub fn new(options: LivenessOptions, runtime: Arc<dyn Runtime>) -> Parts {
        let (expired_to, expired) = mpsc::unbounded_channel();
        let driver = Arc::new(Driver::new(&options, runtime, expired_to));
        Parts { liveness: Self { driver: driver.clone() }, messages: driver, expired }
    }

    /// Starts reporting and deciding; a second call does nothing. Must be called within a Tokio runtime.
    pub fn start(&self, node: raft::Node) {
        if self.driver.set_node(node.clone()) {
            tasks::start(&self.driver, node);
        }
    }

    /// Ends its tasks: nothing is reported or decided any more.
    pub fn stop(&self) {
        self.driver.stop();
    }

    /// A broker was heard on a connection (oneway requests too): `Strong` after a REGISTER_BROKER that was accepted or
    /// is about to be confirmed, `Weak` after any other request of a broker.
    ///
    /// # Errors
    /// No further session fits; the broker was not noted in any way.
    pub fn heartbeat(
        &self,
        session: SessionId,
        broker: &BrokerKey,
        strength: Strength,
    ) -> Result<(), SessionsFull> {
        self.driver.heartbeat(session, broker, strength)
    }

    /// Asks the leader for the registration status of a broker: an unchanged REGISTER is answered only when it is
    /// registered. Goes out at once; asks again until there is an answer or the deadline has come.
    pub async fn confirm(&self, broker: &BrokerKey, deadline: Instant) -> RegistrationStatus {
        let asked = self.driver.with_leader(|tracker, now, leader| tracker.confirm(now, broker, leader));
        match asked {
            Ok(status) => status,
            Err(answer) => match tokio::time::timeout_at(deadline, answer).await {
                Ok(Ok(status)) => status,
                Ok(Err(_)) | Err(_) => RegistrationStatus::NotNow,
            },
        }
    }

    /// Whether the leader said last that a broker with a session here is not registered. Asks nothing.
    #[must_use]
    pub fn is_not_registered(&self, broker: &BrokerKey) -> bool {
        self.driver.with_leader(|tracker, _, leader| tracker.is_not_registered(broker, leader))
    }

    /// A connection is over, and all registrations that were in flight on it have their outcome.
    pub fn close(&self, session: SessionId, by: ClosedBy) {
        self.driver.with(|tracker, now| tracker.close(now, session, by));
    }

    /// Milliseconds since a broker's last heartbeat: anywhere at the leader, over a connection of this node otherwise.
    #[must_use]
    pub fn idle_ms(&self, broker: &BrokerKey) -> Option<u64> {
        self.driver.with(|tracker, now| tracker.idle(now, broker)).map(clock::millis)
    }

    /// The idle times of all brokers: the leader's, or this node's own when the leader does not answer by the deadline.
    pub async fn idle_times(&self, deadline: Instant) -> IdleTimes {
        self.driver.idle_times(deadline).await
    }

    /// Nodes, guard and counters.
    #[must_use]
    pub fn status(&self) -> LivenessStatus {
        self.driver.with(|tracker, now| tracker.status(now))
    }

    /// Guard and counters alone.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.driver.with(|tracker, now| tracker.totals(now))
    }
}
