//! The types of the façade.

use bytes::Bytes;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;
use storage::disk::SpaceLevel;
use storage::log_place::TruncatedTail;
use storage::marker::MarkerFile;
use storage::outcome::Event;
use storage::{Command, LogId, Outcome, Position};

/// Id of a node: chosen by the operator, kept in its data directory, never used again for another directory.
pub type NodeId = u64;

/// A member's id and where its peer port is reached (`host:port`, resolved at each connect).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// Its id.
    pub id: NodeId,
    /// `host:port` of its peer port.
    pub address: String,
}

/// How a node takes part.
#[derive(Debug, Clone)]
pub struct Options {
    /// This node.
    pub node_id: NodeId,
    /// The members named at the start. Used for the cluster's birth; afterwards contacts only.
    pub members: Vec<Member>,
    /// Heartbeats and elections.
    pub timing: Timing,
    /// Shared secret of the peer protocol; all nodes must have the same.
    pub secret: Vec<u8>,
    /// Applied as the first commands of a new cluster; must be the same on all nodes when it is born.
    pub birth: Vec<Command>,
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

/// When a snapshot is made: whatever comes first. The log is purged behind the older of the two kept ones.
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

/// What consensus asks of the data directory beside the log and the snapshots.
pub trait Directory: Send + Sync + 'static {
    /// Random id of the cluster that this directory belongs to; `None` before its birth.
    fn cluster_id(&self) -> Option<u128>;

    /// Keeps the cluster id for good. Durable when it returns; called once in the life of a directory.
    ///
    /// # Errors
    /// It could not be made durable; then the node does not join.
    fn save_cluster_id(&self, cluster_id: u128) -> io::Result<()>;

    /// The tail of the log that was cut off when it was opened, until [`Directory::forget_truncated_tail`]. Told to other nodes.
    /// Asked often: answer from memory.
    fn truncated_tail(&self) -> Option<TruncatedTail> {
        None
    }

    /// The node has caught up since. May block.
    ///
    /// # Errors
    /// It could not be made durable; then it is told again after the next start.
    fn forget_truncated_tail(&self) -> io::Result<()> {
        Ok(())
    }

    /// How much room the disk has left. At `Low` a leader refuses commands and hands over, at `Min` the node takes
    /// no entries. Asked often: answer from memory.
    fn space(&self) -> SpaceLevel {
        SpaceLevel::Ok
    }
}

/// The marker knows all but the room.
impl Directory for MarkerFile {
    fn cluster_id(&self) -> Option<u128> {
        self.get().cluster_id
    }

    fn save_cluster_id(&self, cluster_id: u128) -> io::Result<()> {
        self.set_cluster_id(cluster_id)
    }

    fn truncated_tail(&self) -> Option<TruncatedTail> {
        self.get().truncated_tail
    }

    fn forget_truncated_tail(&self) -> io::Result<()> {
        MarkerFile::forget_truncated_tail(self)
    }
}

/// A change of the membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberChange {
    /// Takes a waiting node in as a learner: it follows and serves look-ups, but does not vote.
    AddLearner(Member),
    /// Makes a learner that has caught up a voter.
    Promote(NodeId),
    /// Removes a member (not the leader: transfer first). Its id is never used again.
    Remove(NodeId),
    /// Adds `new`, waits until it has caught up, makes it a voter and removes `old`.
    Replace {
        /// The dead node.
        old: NodeId,
        /// Its successor, with an id of its own.
        new: Member,
    },
}

/// A command that was committed, and applied on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposed {
    /// Where it stands in the log. For a command that the leader found to change nothing: its applied revision.
    pub position: Position,
    /// What it came to.
    pub outcome: Outcome,
}

/// Why a command was not carried out, or may not have been.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// It was certainly not carried out and will not be.
    #[error("refused: {0}")]
    Refused(String),
    /// It may have been, or may yet be, carried out: asked, but no answer in time.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

/// Why a read cannot be answered as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No leader confirmed in time.
    #[error("no leader confirmed the read in time")]
    NoLeader,
    /// This node did not reach the revision in time.
    #[error("revision {wanted} not reached in time, this node is at {applied}")]
    Behind {
        /// Asked for.
        wanted: u64,
        /// Reached.
        applied: u64,
    },
    /// Stopping.
    #[error("the node is stopping")]
    Stopping,
}

/// Who leads, as this node knows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Leadership {
    /// Current term.
    pub term: u64,
    /// Its leader, when known.
    pub leader: Option<NodeId>,
    /// This node leads *and* has applied the first entry of its own term. Whether its quorum lease is still
    /// valid must be asked at the moment of a decision: [`crate::Node::is_leader_with_lease`].
    pub leading: bool,
}

/// An entry that this node applied, or a snapshot that it installed, for those who act on what happened (liveness, logs,
/// notices, metrics).
#[derive(Debug, Clone)]
pub struct AppliedEntry {
    /// Its id.
    pub id: LogId,
    /// What happened.
    pub events: Vec<Event>,
    /// Applied while catching up after a start (it had been committed before), or a snapshot: notify nobody.
    pub replay: bool,
    /// The tables are those of a snapshot. What happened until then is not told: look at all of them.
    pub replaced: bool,
}

/// Whether this node may answer look-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// No cluster yet: waiting for its birth, or for a member to take this node in.
    Waiting,
    /// Started; has not yet applied what the leader had committed when it was first heard.
    Recovering,
    /// Has.
    Recovered,
    /// No longer a member.
    Removed,
    /// Stopping.
    Stopping,
}

/// What a node says of itself.
#[derive(Debug, Clone)]
pub struct Status {
    /// This node.
    pub node_id: NodeId,
    /// Random id of the cluster, drawn at its birth.
    pub cluster_id: Option<u128>,
    /// Random id of the data directory.
    pub directory_id: u128,
    /// May it answer look-ups.
    pub standing: Standing,
    /// Who leads.
    pub leadership: Leadership,
    /// Since a leader was last heard (zero on the leader with a valid lease).
    pub since_leader: Option<Duration>,
    /// Members, voters first.
    pub members: Vec<MemberStatus>,
    /// Last entry of the log.
    pub last: Option<LogId>,
    /// Last entry known to be committed.
    pub committed: Option<LogId>,
    /// Last applied entry.
    pub applied: Option<LogId>,
    /// Last purged entry.
    pub purged: Option<LogId>,
    /// Last entry of the newest snapshot.
    pub snapshot: Option<LogId>,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Hash of the state in the newest snapshot, with the entry it stands at.
    pub state_hash: Option<(LogId, u128)>,
    /// Nodes whose state hash differed from this node's at the same entry: an alarm.
    pub diverged: Vec<NodeId>,
    /// Why the node waits or refuses, in a sentence with the command to run; empty when all is well.
    pub notice: String,
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

/// Handles messages that other nodes send beside the log (reports of liveness).
pub trait PeerMessages: Send + Sync + 'static {
    /// Answers one message. Messages of one sender and lane arrive in order, one at a time.
    fn handle(&self, from: NodeId, message: Bytes) -> Pin<Box<dyn Future<Output = Bytes> + Send + '_>>;
}

/// Why a message got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no answer from node {to}: {reason}")]
pub struct MessageError {
    /// The node.
    pub to: NodeId,
    /// Why.
    pub reason: String,
}

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Refused: the data directory or the settings do not fit. Exit code 1.
    #[error("{0}")]
    Refused(String),
    /// The peer port cannot be listened on. Exit code 3.
    #[error("cannot listen for peers on {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// Raft or the disk. Exit code 4.
    #[error("{0}")]
    Failed(String),
}
