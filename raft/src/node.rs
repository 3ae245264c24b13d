//! The façade.

use crate::api::{
    AppliedEntry, Directory, Leadership, MemberChange, MessageError, NodeId, OpenError, Options,
    PeerMessages, ProposeError, Proposed, ReadError, Status,
};
use crate::peer::PeerNetwork;
use bytes::Bytes;
use std::sync::Arc;
use storage::log::Log;
use storage::runtime::Runtime;
use storage::snapshots::Snapshots;
use storage::{Command, LogId, RouteInfo};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

/// A node of the cluster. A cheap handle: clones are the same node.
#[derive(Clone)]
pub struct Node {}

/// What a node stands on.
pub struct Parts {
    /// Log and vote.
    pub log: Arc<dyn Log>,
    /// Snapshots.
    pub snapshots: Arc<dyn Snapshots>,
    /// Wall clock and randomness.
    pub runtime: Arc<dyn Runtime>,
    /// Connections to and from peers; in production [`crate::TcpPeers`] around the listening peer port.
    pub network: Arc<dyn PeerNetwork>,
    /// Random id of the data directory.
    pub directory_id: u128,
    /// The rest of what the data directory knows.
    pub directory: Arc<dyn Directory>,
    /// Takes messages of other nodes.
    pub messages: Arc<dyn PeerMessages>,
}

impl Node {
    /// Starts the node: loads the newest snapshot, applies what is known to be committed, opens the peer port,
    /// and takes part.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn open(_options: Options, _parts: Parts) -> Result<Self, OpenError> {
        Err(OpenError::Failed("not built yet".into()))
    }

    /// The tables as of the last applied entry. A reader keeps what it got; it never waits.
    #[must_use]
    pub fn table(&self) -> Arc<RouteInfo> {
        Arc::default()
    }

    /// Carries a command out, through the leader wherever that is, and waits until this node has applied it.
    ///
    /// # Errors
    /// [`ProposeError`]: refused or unknown, by the deadline at the latest.
    pub async fn propose(&self, _command: Command, _deadline: Instant) -> Result<Proposed, ProposeError> {
        Err(ProposeError::Refused("not built yet".into()))
    }

    /// Carries out what the leader of a term decided by itself (expiry, disconnect). Never forwarded; refused
    /// unless this node leads in exactly that term.
    ///
    /// # Errors
    /// As [`Node::propose`].
    pub async fn propose_in_term(
        &self,
        _term: u64,
        _command: Command,
        _deadline: Instant,
    ) -> Result<Proposed, ProposeError> {
        Err(ProposeError::Refused("not built yet".into()))
    }

    /// Read barrier: after it, [`Node::table`] holds everything that was acknowledged anywhere before the call.
    /// Gives the revision that was waited for.
    ///
    /// # Errors
    /// No leader confirmed, or this node did not catch up in time.
    pub async fn read_barrier(&self, _deadline: Instant) -> Result<u64, ReadError> {
        Err(ReadError::NoLeader)
    }

    /// Waits until this node has applied an index.
    ///
    /// # Errors
    /// Not reached by the deadline.
    pub async fn wait_applied(&self, _index: u64, _deadline: Instant) -> Result<(), ReadError> {
        Err(ReadError::NoLeader)
    }

    /// Last applied entry, as it moves.
    #[must_use]
    pub fn applied(&self) -> watch::Receiver<Option<LogId>> {
        watch::channel(None).1
    }

    /// Entries as they are applied, after their tables are visible. A receiver that lags behind is told so and
    /// must look at the tables instead.
    #[must_use]
    pub fn entries(&self) -> broadcast::Receiver<Arc<AppliedEntry>> {
        broadcast::channel(1).1
    }

    /// Who leads, as it changes.
    #[must_use]
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        watch::channel(Leadership::default()).1
    }

    /// Whether this node leads right now: it has applied an entry of its own term and a quorum has acknowledged
    /// it within the last lease. Gives the term.
    #[must_use]
    pub fn is_leader_with_lease(&self) -> Option<u64> {
        None
    }

    /// What the node says of itself.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            node_id: 0,
            cluster_id: None,
            directory_id: 0,
            standing: crate::Standing::Waiting,
            leadership: Leadership::default(),
            since_leader: None,
            members: Vec::new(),
            last: None,
            committed: None,
            applied: None,
            purged: None,
            snapshot: None,
            log_bytes: 0,
            state_hash: None,
            diverged: Vec::new(),
            notice: String::new(),
        }
    }

    /// Hands leadership to a voter (`None`: to the one that is furthest), and waits until it leads. Works from
    /// any node. Gives the new leader.
    ///
    /// # Errors
    /// No leader, not a voter, or it did not take over in time.
    pub async fn transfer(&self, _to: Option<NodeId>, _deadline: Instant) -> Result<NodeId, ProposeError> {
        Err(ProposeError::Refused("not built yet".into()))
    }

    /// Changes the membership, one change at a time. Works from any node; waits until the change is committed
    /// (for a replacement: until the new node has caught up and votes).
    ///
    /// # Errors
    /// Refused with the reason (not reached, not caught up, a quorum would be lost, the leader itself), or
    /// unknown when the deadline came first.
    pub async fn change_members(
        &self,
        _change: MemberChange,
        _deadline: Instant,
    ) -> Result<(), ProposeError> {
        Err(ProposeError::Refused("not built yet".into()))
    }

    /// Sends a message to another node beside the log and waits for its answer. Messages of one lane (0..=3) to
    /// one node arrive in the order of the calls.
    ///
    /// # Errors
    /// Not reached, or no answer by the deadline.
    pub async fn message(
        &self,
        to: NodeId,
        _lane: u8,
        _message: Bytes,
        _deadline: Instant,
    ) -> Result<Bytes, MessageError> {
        Err(MessageError { to, reason: "not built yet".into() })
    }

    /// Resolves when Raft's core or the log has died; the process must then exit.
    pub async fn died(&self) -> String {
        std::future::pending().await
    }

    /// Graceful stop: refuses new commands, hands leadership over, finishes what is under way, ends all tasks.
    pub async fn shutdown(&self) {}
}
