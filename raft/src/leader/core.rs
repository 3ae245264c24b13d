//! The middle of a node: everything that its tasks and its façade share.

use crate::api::{Leadership, NodeId, PeerMessages, ReadError};
use crate::consensus::applied_state::Published;
use crate::consensus::log_store::LogStore;
use crate::consensus::types::{Raft, log_id};
use crate::local::node::Context;
use crate::peer::peers::Peers;
use crate::proposals::queue::Waiting;
use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use storage::LogId;
use storage::disk::SpaceLevel;
use storage::snapshots::Snapshots;
use tokio::sync::{Notify, RwLock, mpsc, watch};
use tokio::time::{Instant, timeout_at};

/// A node's inside.
pub(crate) struct Core {
    pub(crate) context: Arc<Context>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) raft: Raft,
    pub(crate) log: LogStore,
    pub(crate) published: Arc<Published>,
    pub(crate) snapshots: Arc<dyn Snapshots>,
    /// A snapshot cannot be read, or there is another reason to make one now.
    pub(crate) snapshot_due: Arc<Notify>,
    pub(crate) messages: Arc<dyn PeerMessages>,
    pub(crate) leadership: watch::Sender<Leadership>,
    /// Hash of the commands that a new cluster begins with.
    pub(crate) birth_fingerprint: u128,
    /// Seeds the hashes by which equal changes in flight are found.
    pub(crate) hash_seed: u64,
    /// Commands on their way into an entry.
    pub(crate) queue: mpsc::Sender<Waiting>,
    /// Held shared while entries are taken, and alone while a snapshot is handed to openraft.
    pub(crate) append_gate: RwLock<()>,
    /// Last word of a leader.
    pub(crate) heard: Mutex<Option<Instant>>,
    /// The term of the last leader that was heard since this process started.
    pub(crate) heard_term: watch::Sender<u64>,
    /// What must be applied before this node counts as recovered; set once a leader said so.
    pub(crate) recovery: watch::Sender<Option<u64>>,
    pub(crate) recovered: AtomicBool,
    pub(crate) stopping: AtomicBool,
    /// The term in which leadership was handed over: no lease counts in it any more.
    pub(crate) handed_over: AtomicU64,
    /// The disk does not keep up: refuse commands.
    pub(crate) disk_hung: AtomicBool,
    pub(crate) diverged: Mutex<BTreeSet<NodeId>>,
    /// Why the process must exit.
    pub(crate) death: watch::Sender<Option<String>>,
}

impl Core {
    /// This node.
    pub(crate) fn id(&self) -> NodeId {
        self.context.id()
    }

    /// Who leads.
    pub(crate) fn leadership(&self) -> Leadership {
        *self.leadership.borrow()
    }

    /// The leader to ask: this node itself, or one that was heard lately. To another nothing is sent, for it could
    /// not be called back.
    pub(crate) fn leader_to_ask(&self) -> Option<NodeId> {
        let leader = self.leadership().leader?;
        let heard = || self.since_heard().is_some_and(|since| since < self.lately());
        (leader == self.id() || heard()).then_some(leader)
    }

    /// A leader that was not heard for this long is none.
    pub(crate) fn lately(&self) -> Duration {
        Duration::from_millis(2 * self.context.options.timing.election_max_ms)
    }

    fn since_heard(&self) -> Option<Duration> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).map(|at| at.elapsed())
    }

    /// Waits until this node has applied an index.
    pub(crate) async fn wait_applied(&self, index: u64, deadline: Instant) -> Result<(), ReadError> {
        let mut applied = self.published.watch_applied();
        let reached = applied.wait_for(|id| id.is_some_and(|id| id.index >= index));
        tokio::select! {
            biased;
            reached = timeout_at(deadline, reached) => match reached {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(_)) => Err(ReadError::Stopping),
                Err(_) => {
                    let applied = self.published.applied().map_or(0, |id| id.index);
                    Err(ReadError::Behind { wanted: index, applied })
                }
            },
            () = self.context.stop.cancelled() => Err(ReadError::Stopping),
        }
    }

    /// The term, if this node leads it with a valid lease right now.
    pub(crate) fn lease(&self) -> Option<u64> {
        let leadership = self.leadership();
        if !leadership.leading || self.handed_over.load(Ordering::Acquire) == leadership.term {
            return None;
        }
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        if metrics.state != ServerState::Leader || metrics.current_term != leadership.term {
            return None;
        }
        let mut voters = metrics.membership_config.voter_ids();
        let alone = voters.next() == Some(self.id()) && voters.next().is_none();
        let lease = Duration::from_millis(self.context.options.timing.election_max_ms);
        let acked = metrics.last_quorum_acked.is_some_and(|at| {
            use openraft::Instant as _;
            at.elapsed() < lease
        });
        (alone || acked).then_some(leadership.term)
    }

    /// Takes note of an accepted word of a leader.
    pub(crate) fn hear_leader(&self, term: u64, committed: Option<LogId>) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.heard_term.send_if_modified(|heard| std::mem::replace(heard, term) != term);
        self.context.removed.store(false, Ordering::Release);
        self.context.notices.clear("directory");
        // Until it has committed an entry of its own term, a leader itself does not know how far the log is
        // committed.
        if self.recovered.load(Ordering::Acquire) {
            return;
        }
        if let Some(committed) = committed
            && committed.term == term
        {
            self.recovery.send_if_modified(|target| {
                let first = target.is_none();
                if first {
                    *target = Some(committed.index);
                }
                first
            });
        }
    }

    /// Since a leader with a majority was last heard; zero on that leader itself. A leader that loses its majority
    /// counts from the last time that somebody looked here.
    pub(crate) fn since_leader(&self) -> Option<Duration> {
        if self.lease().is_some() {
            *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            return Some(Duration::ZERO);
        }
        self.since_heard()
    }

    /// Whether Raft has anything on disk: a log, a vote, a snapshot.
    pub(crate) fn is_initialized(&self) -> bool {
        let log = self.context.log.state();
        log.last.is_some() || self.published.applied().is_some()
    }

    /// Why this node takes no commands now.
    pub(crate) fn refuses_commands(&self) -> Option<String> {
        if self.stopping.load(Ordering::Acquire) {
            return Some("the node is stopping".into());
        }
        None
    }

    /// Why this node, as the leader, appends nothing now.
    pub(crate) fn refuses_appends(&self) -> Option<String> {
        if self.disk_hung.load(Ordering::Acquire) {
            return Some("the leader's disk does not answer".into());
        }
        match self.context.directory.space() {
            SpaceLevel::Ok => None,
            SpaceLevel::Low | SpaceLevel::Min => Some("the leader's disk is nearly full".into()),
        }
    }

    /// On the leader: the last entry known to be in each other member's log.
    pub(crate) fn matched(&self) -> Vec<(NodeId, Option<LogId>)> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let replication = metrics.replication.iter().flatten();
        replication.map(|(id, matched)| (*id, matched.as_ref().map(log_id))).collect()
    }
}
