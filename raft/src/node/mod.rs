//! The façade.

use crate::api::{
    AppliedEntry, Directory, Leadership, MemberChange, MessageError, NodeId, OpenError, Options,
    PeerMessages, ProposeError, Proposed, ReadError, Status,
};
use crate::consensus::applied_state::Published;
use crate::consensus::config;
use crate::consensus::log_store::LogStore;
use crate::consensus::network::Network;
use crate::consensus::runtime::{blocking, with_randomness};
use crate::consensus::state_machine::Machine;
use crate::consensus::types::Raft;
use crate::health::disk_watch;
use crate::health::state_check as hash_check;
use crate::health::truncated_tail as cut_tail;
use crate::leader::core::Core;
use crate::local::node::{Context, Members};
use crate::membership::bootstrap;
use crate::observer as leadership;
use crate::peer::PeerNetwork;
use crate::peer::connection::Limit;
use crate::peer::handshake::Lane;
use crate::peer::message::{Reply, Request};
use crate::peer::peers::Peers;
use crate::peer::server;
use crate::proposals::batcher;
use crate::proposals::queue::Waiting;
use crate::snapshots::driver as snapshot_driver;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use storage::disk::Watchdog;
use storage::log::Log;
use storage::runtime::Runtime;
use storage::snapshots::Snapshots;
use storage::{Command, LogId, RouteInfo, format};
use tokio::sync::{Notify, broadcast, mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

/// To hand leadership over when stopping.
const STOP_TRANSFER_MAX: Duration = Duration::from_millis(1500);
/// To finish what is under way when stopping.
const STOP_DRAIN_MAX: Duration = Duration::from_millis(1000);
/// To end Raft, the tasks, the log; each.
const STOP_STEP_MAX: Duration = Duration::from_millis(700);

/// A node of the cluster. A cheap handle: clones are the same node.
#[derive(Clone)]
pub struct Node {
    pub(crate) core: Arc<Core>,
}

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
    pub async fn open(options: Options, parts: Parts) -> Result<Self, OpenError> {
        let raft_config = config::check(&options)?;
        let birth = format::encode("first commands", &options.birth)
            .map_err(|e| OpenError::Refused(format!("the first commands of a cluster: {e}")))?;
        let context = Arc::new(Context {
            directory_id: parts.directory_id,
            directory: parts.directory,
            log: Arc::clone(&parts.log),
            runtime: Arc::clone(&parts.runtime),
            network: parts.network,
            members: Default::default(),
            notices: Default::default(),
            removed: Default::default(),
            tasks: Default::default(),
            stop: Default::default(),
            options,
        });
        cut_tail::tell(&context);
        let published = Arc::new(Published::default());
        let log = LogStore::new(parts.log);
        let peers = Arc::new(Peers::new(Arc::clone(&context)));
        let snapshot_due = Arc::new(Notify::new());
        let network = Network {
            id: context.id(),
            peers: Arc::clone(&peers),
            snapshots: Arc::clone(&parts.snapshots),
            unreadable: Arc::clone(&snapshot_due),
        };
        let machine =
            Machine::new(Arc::clone(&published), Arc::clone(&parts.snapshots), Arc::clone(&parts.runtime));
        let build = Raft::build(context.id(), raft_config, network, log.clone(), machine);
        let raft = with_randomness(Arc::clone(&parts.runtime), build)
            .await
            .map_err(|e| OpenError::Failed(format!("Raft cannot start: {e}")))?;
        let membership = Arc::clone(&published.state().membership);
        context
            .members
            .store(Arc::new(Members { effective: Arc::clone(&membership), committed: membership }));
        let (queue, waiting) = mpsc::channel(batcher::QUEUE_MAX);
        let core = Arc::new(Core {
            peers,
            raft,
            log,
            published,
            snapshots: parts.snapshots,
            snapshot_due,
            messages: parts.messages,
            leadership: watch::Sender::default(),
            birth_fingerprint: xxhash_rust::xxh3::xxh3_128(&birth),
            hash_seed: parts.runtime.random_u64(),
            queue,
            append_gate: Default::default(),
            heard: Default::default(),
            heard_term: watch::Sender::default(),
            recovery: watch::Sender::default(),
            recovered: Default::default(),
            stopping: Default::default(),
            handed_over: Default::default(),
            disk_hung: Default::default(),
            diverged: Default::default(),
            death: watch::Sender::default(),
            context,
        });
        let watchdog = disk_watch::watchdog(&core)
            .map_err(|e| OpenError::Failed(format!("the disk watchdog cannot start: {e}")))?;
        with_randomness(parts.runtime, async { start(&core, waiting, watchdog) }).await;
        Ok(Self { core })
    }

    /// The tables as of the last applied entry. A reader keeps what it got; it never waits.
    #[must_use]
    pub fn table(&self) -> Arc<RouteInfo> {
        self.core.published.table()
    }

    /// Carries a command out, through the leader wherever that is, and waits until this node has applied it.
    ///
    /// # Errors
    /// [`ProposeError`]: refused or unknown, by the deadline at the latest.
    pub async fn propose(&self, command: Command, deadline: Instant) -> Result<Proposed, ProposeError> {
        self.core.propose(command, deadline).await
    }

    /// Carries out what the leader of a term decided by itself (expiry, disconnect). Never forwarded; refused
    /// unless this node leads in exactly that term.
    ///
    /// # Errors
    /// As [`Node::propose`].
    pub async fn propose_in_term(
        &self,
        term: u64,
        command: Command,
        deadline: Instant,
    ) -> Result<Proposed, ProposeError> {
        self.core.propose_in_term(term, command, deadline).await
    }

    /// Read barrier: after it, [`Node::table`] holds everything that was acknowledged anywhere before the call.
    /// Gives the revision that was waited for.
    ///
    /// # Errors
    /// No leader confirmed, or this node did not catch up in time.
    pub async fn read_barrier(&self, deadline: Instant) -> Result<u64, ReadError> {
        self.core.read_barrier(deadline).await
    }

    /// Waits until this node has applied an index.
    ///
    /// # Errors
    /// Not reached by the deadline.
    pub async fn wait_applied(&self, index: u64, deadline: Instant) -> Result<(), ReadError> {
        self.core.wait_applied(index, deadline).await
    }

    /// Last applied entry, as it moves.
    #[must_use]
    pub fn applied(&self) -> watch::Receiver<Option<LogId>> {
        self.core.published.watch_applied()
    }

    /// Entries as they are applied, after their tables are visible. A receiver that lags behind is told so and
    /// must look at the tables instead.
    #[must_use]
    pub fn entries(&self) -> broadcast::Receiver<Arc<AppliedEntry>> {
        self.core.published.news()
    }

    /// Who leads, as it changes.
    #[must_use]
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.core.leadership.subscribe()
    }

    /// Whether this node leads right now: it has applied an entry of its own term and a quorum has acknowledged
    /// it within the last lease. Gives the term.
    #[must_use]
    pub fn is_leader_with_lease(&self) -> Option<u64> {
        self.core.lease()
    }

    /// What the node says of itself.
    #[must_use]
    pub fn status(&self) -> Status {
        self.core.status()
    }

    /// Hands leadership to a voter (`None`: to the one that is furthest), and waits until it leads. Works from
    /// any node. Gives the new leader.
    ///
    /// # Errors
    /// No leader, not a voter, or it did not take over in time.
    pub async fn transfer(&self, to: Option<NodeId>, deadline: Instant) -> Result<NodeId, ProposeError> {
        self.core.transfer(to, deadline).await
    }

    /// Changes the membership, one change at a time. Works from any node; waits until the change is committed
    /// (for a replacement: until the new node has caught up and votes).
    ///
    /// # Errors
    /// Refused with the reason (not reached, not caught up, a quorum would be lost, the leader itself), or
    /// unknown when the deadline came first.
    pub async fn change_members(&self, change: MemberChange, deadline: Instant) -> Result<(), ProposeError> {
        self.core.change_members(change.into(), deadline).await
    }

    /// Sends a message to another node beside the log and waits for its answer. Messages of one lane (0..=3) to
    /// one node arrive in the order of the calls.
    ///
    /// # Errors
    /// Not reached, or no answer by the deadline.
    pub async fn message(
        &self,
        to: NodeId,
        lane: u8,
        message: Bytes,
        deadline: Instant,
    ) -> Result<Bytes, MessageError> {
        let peer = self.core.peers.peer(to);
        let limit = Limit::Deadline(deadline);
        match peer.call(Lane::Message(lane), &Request::Message(message), limit).await {
            Ok(Reply::Message(answer)) => Ok(answer),
            Ok(other) => Err(MessageError { to, reason: format!("unexpected answer {other:?}") }),
            Err(e) => Err(MessageError { to, reason: e.to_string() }),
        }
    }

    /// Resolves when Raft's core or the log has died; the process must then exit.
    pub async fn died(&self) -> String {
        let mut death = self.core.death.subscribe();
        match death.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => "the node is gone".into(),
        }
    }

    /// Graceful stop: refuses new commands, hands leadership over, finishes what is under way, ends all tasks and
    /// closes the log. Takes a few seconds at most.
    pub async fn shutdown(&self) {
        let core = &self.core;
        if core.stopping.swap(true, Ordering::AcqRel) {
            core.context.tasks.wait().await;
            return;
        }
        if core.leadership().leader == Some(core.id())
            && core.context.members.load().effective.voter_ids().count() > 1
        {
            let handed_over = core.transfer_for(None, Instant::now() + STOP_TRANSFER_MAX).await;
            tracing::info!("leadership at the stop: {handed_over:?}");
        }
        let drained = Instant::now() + STOP_DRAIN_MAX;
        while core.queue.capacity() < batcher::QUEUE_MAX && Instant::now() < drained {
            sleep(Duration::from_millis(5)).await;
        }
        // Whatever does not end in time ends with the process.
        let _ = timeout(STOP_STEP_MAX, core.raft.shutdown()).await;
        core.context.stop.cancel();
        core.context.tasks.close();
        let _ = timeout(STOP_STEP_MAX, core.context.tasks.wait()).await;
        let log = Arc::clone(&core.context.log);
        let closing = blocking(move || {
            log.close();
            Ok(())
        });
        let _ = timeout(STOP_STEP_MAX, closing).await;
    }
}

/// Starts Raft and all tasks of the node.
fn start(core: &Arc<Core>, waiting: mpsc::Receiver<Waiting>, watchdog: Watchdog) {
    core.raft.run();
    let tasks = &core.context.tasks;
    tasks.spawn(leadership::run(Arc::clone(core)));
    tasks.spawn(leadership::watch_core(Arc::clone(core)));
    tasks.spawn(batcher::run(Arc::clone(core), waiting));
    tasks.spawn(snapshot_driver::run(Arc::clone(core)));
    tasks.spawn(disk_watch::run(Arc::clone(core), watchdog));
    tasks.spawn(hash_check::run(Arc::clone(core)));
    tasks.spawn(bootstrap::run(Arc::clone(core)));
    tasks.spawn(server::run(Arc::clone(&core.context), Arc::clone(core) as Arc<dyn server::Answers>));
}
