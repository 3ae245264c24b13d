//! Which brokers are alive: the sessions of this node, reports to every voter, the ledger of last-heard, and the
//! removals that a leader decides from it. Soft state: nothing here is stored, and removals are log entries.

mod by_broker;
mod clock;
mod confirmations;
mod core;
mod decide;
mod exchange;
mod guard;
mod inheritance;
mod ledger;
mod marks;
mod notices;
mod own;
mod quorum;
mod removals;
mod report;
mod sessions;
mod shell;
mod shown;
mod status;
mod stream;
mod tasks;
mod telling;
mod views;

#[cfg(test)]
mod tests;

pub use notices::MinBrokerIdNotice;
pub use status::{BrokerStatus, Counters, GuardStatus, LivenessStatus, PeerStatus, Strength, Totals};

use raft::{NodeId, PeerMessages};
use shell::Shell;
use std::sync::Arc;
use std::time::Duration;
use storage::Position;
use storage::route_info::BrokerKey;
use storage::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Notices that wait for the one who sends them; more are dropped, with a warning.
pub const NOTICES_WAITING_MAX: usize = 1_024;

/// A connection of this node, numbered since the process started. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// What was heard of a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// REGISTER_BROKER that was accepted, or that changes nothing and is about to be confirmed: the session is
    /// strong from now on.
    Register,
    /// BROKER_HEARTBEAT or QUERY_DATA_VERSION, or a REGISTER_BROKER that has just arrived and must be proposed: the
    /// session is weak unless it is strong already.
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
    /// Not in the table (`confirm`: and no removal is under way any more, so what is proposed now comes after it).
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
    /// How long removals count together.
    pub guard_window: Duration,
    /// How long a broker is kept at most after its own timeout has passed.
    pub guard_hold: Duration,
    /// How many (connection, broker) pairs this node follows. Brokers beyond are heard, but their sessions are not
    /// followed, so that they leave by their timeout only.
    pub session_pairs_max: usize,
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
            session_pairs_max: 65_536,
        }
    }
}

/// What [`Liveness::new`] makes.
pub struct Parts {
    /// The handle.
    pub liveness: Liveness,
    /// Takes the messages of other nodes: give it to `raft::Node::open`.
    pub messages: Arc<dyn PeerMessages>,
    /// Connections to close since a broker of theirs expired (answer the close with [`ClosedBy::Us`]).
    pub expired: mpsc::UnboundedReceiver<SessionId>,
    /// Notices to send to brokers. When the receiver is slow, notices are dropped and counted in the log.
    pub notices: mpsc::Receiver<MinBrokerIdNotice>,
}

/// The handle that connections and the service use. Clones are the same.
///
/// A registration that changes nothing: [`heard`](Self::heard) with [`Heard::Register`] first, then
/// [`confirm`](Self::confirm), so that the leader sees the session before it gives its word. One that changes
/// something: `heard` with [`Heard::Heartbeat`] when it arrives (its connection speaks, whatever becomes of it),
/// propose, then `heard` with [`Heard::Register`] when it was accepted. A connection's [`closed`](Self::closed) comes last of all.
#[derive(Clone)]
pub struct Liveness {
    shell: Arc<Shell>,
}

impl Liveness {
    /// Makes it. Until [`start`](Self::start) it only listens.
    #[must_use]
    #[allow(clippy::new_ret_no_self, reason = "the handle is one of several parts")]
    pub fn new(options: LivenessOptions, runtime: Arc<dyn Runtime>) -> Parts {
        let (expired_to, expired) = mpsc::unbounded_channel();
        let (notices_to, notices) = mpsc::channel(NOTICES_WAITING_MAX);
        let shell = Arc::new(Shell::new(&options, runtime, expired_to, notices_to));
        Parts { liveness: Self { shell: shell.clone() }, messages: shell, expired, notices }
    }

    /// Starts reporting and deciding; a second call does nothing. Must be called within a Tokio runtime.
    pub fn start(&self, node: raft::Node) {
        if self.shell.set_node(node.clone()) {
            tasks::start(&self.shell, node);
        }
    }

    /// Ends its tasks: nothing is reported or decided any more.
    pub fn stop(&self) {
        self.shell.stop();
    }

    /// A broker was heard on a connection (oneway requests too).
    pub fn heard(&self, session: SessionId, broker: &BrokerKey, what: Heard) {
        self.shell.heard(session, broker, what);
    }

    /// Asks the leader whether it knows the broker: an unchanged REGISTER is answered only when it does.
    /// Goes out at once; asks again until there is a word or the deadline has come.
    pub async fn confirm(&self, broker: &BrokerKey, deadline: Instant) -> Known {
        let told = match self.shell.with_leader(|core, now, leader| core.confirm(now, broker, leader)) {
            Ok(known) => return known,
            Err(told) => told,
        };
        match tokio::time::timeout_at(deadline, told).await {
            Ok(Ok(known)) => known,
            Ok(Err(_)) | Err(_) => Known::NotNow,
        }
    }

    /// The leader's last word on a broker that has a session here, without asking.
    #[must_use]
    pub fn last_word(&self, broker: &BrokerKey) -> Option<Known> {
        self.shell.with_leader(|core, _, leader| core.last_word(broker, leader))
    }

    /// A connection is over, and all registrations that were in flight on it have their outcome.
    pub fn closed(&self, session: SessionId, by: ClosedBy) {
        self.shell.with(|core, now| core.closed(now, session, by));
    }

    /// Milliseconds since a broker of the table was last heard anywhere, as this node's ledger has it. `None` at a node
    /// without a vote, which is not told of heartbeats.
    #[must_use]
    pub fn silence_ms(&self, broker: &BrokerKey) -> Option<u64> {
        self.shell.with(|core, now| core.silence(now, broker)).map(clock::millis)
    }

    /// Brokers, streams, guard and counters.
    #[must_use]
    pub fn status(&self) -> LivenessStatus {
        self.shell.with(|core, now| core.status(now))
    }

    /// Guard and counters alone.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.shell.with(|core, now| core.totals(now))
    }
}
