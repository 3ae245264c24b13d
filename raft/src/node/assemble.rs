//! Makes the owners of all rooms, and starts their tasks.

use super::{Node, Owners, Parts};
use crate::api::{OpenError, Options, PeerMessages};
use crate::consensus::applied_state::AppliedStatePublisher;
use crate::consensus::config;
use crate::consensus::log_store::LogStore;
use crate::consensus::network::Network;
use crate::consensus::raft::Raft;
use crate::consensus::runtime::with_randomness;
use crate::consensus::state_machine::StateMachine;
use crate::consensus::types::member_set;
use crate::health::disk_watch::{self, DiskWatch};
use crate::health::member_watch::MemberWatch;
use crate::health::state_check::StateCheck;
use crate::health::status::StatusReporter;
use crate::health::truncated_tail;
use crate::leader::lag::LagWatch;
use crate::leader::leadership::Leadership;
use crate::leader::recovery::Recovery;
use crate::local::{DiskState, LocalNode, Members};
use crate::membership::bootstrap::Bootstrap;
use crate::membership::changes::MemberChanges;
use crate::membership::joint::JointEnd;
use crate::membership::transfer::LeadershipTransfer;
use crate::observer::RaftObserver;
use crate::peer::PeerNetwork;
use crate::peer::dialer::Dialer;
use crate::peer::peers::Peers;
use crate::peer::server::{self, RpcHandler};
use crate::proposals::batcher::Batcher;
use crate::proposals::catch_up::CatchUp;
use crate::proposals::leader_client::LeaderClient;
use crate::proposals::proposer::Proposer;
use crate::proposals::queue::QUEUE_MAX;
use crate::proposals::read_barrier::ReadBarrier;
use crate::rpc_handlers::PeerRpc;
use crate::rpc_handlers::calls::CallRpc;
use crate::rpc_handlers::raft::RaftRpc;
use crate::rpc_handlers::snapshot::SnapshotRpc;
use crate::snapshots::driver::SnapshotDriver;
use crate::snapshots::installer::SnapshotInstaller;
use std::sync::Arc;
use storage::disk::Watchdog;
use storage::format;
use storage::snapshots::Snapshots;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// The tasks of a node, not started.
pub(super) struct Tasks {
    local: Arc<LocalNode>,
    raft: Raft,
    network: Arc<dyn PeerNetwork>,
    watchdog: Watchdog,
    pub(super) observer: Arc<RaftObserver>,
    batcher: Batcher,
    snapshots: SnapshotDriver,
    disk: DiskWatch,
    member_watch: Arc<MemberWatch>,
    pub(super) state_check: Arc<StateCheck>,
    bootstrap: Arc<Bootstrap>,
    joint_end: JointEnd,
    catch_up: CatchUp,
    leadership: Arc<Leadership>,
    lag: Arc<LagWatch>,
    pub(super) rpc: Arc<PeerRpc>,
}

impl Tasks {
    /// Starts openraft's core and all tasks of the node.
    pub(super) async fn start(self) {
        let runtime = Arc::clone(&self.local.runtime);
        with_randomness(runtime, async { self.spawn() }).await;
    }

    fn spawn(self) {
        self.raft.run();
        let tasks = self.local.lifecycle.tasks.clone();
        tasks.spawn(Arc::clone(&self.observer).run());
        tasks.spawn(self.observer.watch_core());
        tasks.spawn(self.batcher.run());
        tasks.spawn(self.snapshots.run());
        tasks.spawn(self.disk.run(self.watchdog));
        tasks.spawn(self.member_watch.run());
        tasks.spawn(self.state_check.run());
        tasks.spawn(self.bootstrap.run());
        tasks.spawn(self.joint_end.run());
        tasks.spawn(self.catch_up.run());
        tasks.spawn(self.leadership.watch_leaderless());
        tasks.spawn(self.lag.run());
        tasks.spawn(server::run(self.local, self.network, self.rpc as Arc<dyn RpcHandler>));
    }
}

/// Makes the owners of all rooms.
pub(super) async fn assemble(options: Options, parts: Parts) -> Result<(Node, Tasks), OpenError> {
    let fingerprint = fingerprint(&options)?;
    let snapshot_due = Arc::new(Notify::new());
    let (network, messages) = (parts.network.clone(), parts.messages.clone());
    let base = Base::open(options, parts, snapshot_due.clone()).await?;
    let watchdog = disk_watch::watchdog(&base.local)
        .map_err(|e| OpenError::Failed(format!("the disk watchdog cannot start: {e}")))?;

    let leader = Arc::new(LeaderClient::new(base.local.clone(), base.leadership.clone(), base.peers.clone()));
    let (proposer, batcher) = base.proposals(&leader);
    let read_barrier = base.read_barrier(&leader);
    let transfer = base.transfer(&leader);
    let changes = base.changes(&leader);
    let state_check = base.state_check();
    let bootstrap = base.bootstrap(fingerprint);
    let member_watch = base.member_watch();
    let calls = CallRpc {
        local: base.local.clone(),
        proposer: proposer.clone(),
        read_barrier: read_barrier.clone(),
        transfer: transfer.clone(),
        changes: changes.clone(),
        bootstrap: bootstrap.clone(),
        state_check: state_check.clone(),
    };
    let tasks = Tasks {
        local: base.local.clone(),
        raft: base.raft.clone(),
        network,
        watchdog,
        observer: base.observer(&state_check),
        batcher,
        snapshots: base.snapshot_driver(snapshot_due),
        disk: base.disk_watch(&transfer),
        member_watch: member_watch.clone(),
        state_check: state_check.clone(),
        bootstrap,
        joint_end: JointEnd::new(base.local.clone(), base.raft.clone(), base.leadership.clone()),
        leadership: base.leadership.clone(),
        lag: base.lag.clone(),
        catch_up: base.catch_up(&read_barrier),
        rpc: base.rpc(calls, messages),
    };
    let owners = Owners {
        status: base.status(&state_check, &member_watch),
        local: base.local,
        raft: base.raft,
        applied: base.applied,
        leadership: base.leadership,
        lag: base.lag,
        peers: base.peers,
        proposer,
        read_barrier,
        transfer,
        changes,
    };
    Ok((Node { owners: Arc::new(owners) }, tasks))
}

/// Hash of the initial commands of a new cluster.
fn fingerprint(options: &Options) -> Result<u128, OpenError> {
    let encoded = format::encode("first commands", &options.initial_commands)
        .map_err(|e| OpenError::Refused(format!("the initial commands of a cluster: {e}")))?;
    Ok(xxhash_rust::xxh3::xxh3_128(&encoded))
}

/// The owners that the others are made of.
struct Base {
    local: Arc<LocalNode>,
    raft: Raft,
    log: LogStore,
    applied: Arc<AppliedStatePublisher>,
    snapshots: Arc<dyn Snapshots>,
    peers: Arc<Peers>,
    leadership: Arc<Leadership>,
    recovery: Arc<Recovery>,
    lag: Arc<LagWatch>,
}

impl Base {
    /// Opens openraft over the log and the snapshots: it installs the newest snapshot, and applies what is known to be
    /// committed.
    async fn open(options: Options, parts: Parts, snapshot_due: Arc<Notify>) -> Result<Self, OpenError> {
        let config = config::check(&options)?;
        let Parts { log, snapshots, runtime, network, directory_id, directory, .. } = parts;
        let local = Arc::new(LocalNode {
            disk: DiskState::new(directory.clone()),
            options,
            directory_id,
            directory,
            log: log.clone(),
            runtime: runtime.clone(),
            members: Default::default(),
            alerts: Default::default(),
            lifecycle: Default::default(),
        });
        truncated_tail::report(&local);
        let applied = Arc::new(AppliedStatePublisher::default());
        let log = LogStore::new(log);
        let peers = Arc::new(Peers::new(Dialer::new(local.clone(), network)));
        let network =
            Network { id: local.id(), peers: peers.clone(), snapshots: snapshots.clone(), snapshot_due };
        let machine = StateMachine::new(applied.clone(), snapshots.clone(), runtime.clone());
        let build = Raft::build(local.id(), config, network, log.clone(), machine);
        let raft = with_randomness(runtime, build)
            .await
            .map_err(|e| OpenError::Failed(format!("Raft cannot start: {e}")))?;
        let members = member_set(&applied.state().membership);
        local.members.store(Members { effective: members.clone(), committed: members });
        let leadership = Arc::new(Leadership::new(local.clone(), raft.clone()));
        let recovery = Arc::new(Recovery::new(local.clone(), applied.clone(), leadership.clone()));
        let lag = Arc::new(LagWatch::new(
            local.clone(),
            raft.clone(),
            applied.clone(),
            leadership.clone(),
            recovery.clone(),
        ));
        Ok(Self { local, raft, log, applied, snapshots, peers, leadership, recovery, lag })
    }

    fn proposals(&self, leader: &Arc<LeaderClient>) -> (Arc<Proposer>, Batcher) {
        let Self { local, raft, applied, leadership, .. } = self;
        let (queue, queued) = mpsc::channel(QUEUE_MAX);
        let proposer = Proposer::new(local.clone(), applied.clone(), leader.clone(), queue);
        let batcher = Batcher::new(local.clone(), raft.clone(), leadership.clone(), applied.clone(), queued);
        (Arc::new(proposer), batcher)
    }

    fn read_barrier(&self, leader: &Arc<LeaderClient>) -> Arc<ReadBarrier> {
        let Self { local, raft, applied, .. } = self;
        Arc::new(ReadBarrier::new(local.clone(), raft.clone(), applied.clone(), leader.clone()))
    }

    fn catch_up(&self, read_barrier: &Arc<ReadBarrier>) -> CatchUp {
        let Self { local, leadership, recovery, .. } = self;
        CatchUp::new(local.clone(), leadership.clone(), recovery.clone(), read_barrier.clone())
    }

    fn transfer(&self, leader: &Arc<LeaderClient>) -> Arc<LeadershipTransfer> {
        let Self { local, raft, leadership, peers, .. } = self;
        Arc::new(LeadershipTransfer::new(
            local.clone(),
            raft.clone(),
            leadership.clone(),
            peers.clone(),
            leader.clone(),
        ))
    }

    fn changes(&self, leader: &Arc<LeaderClient>) -> Arc<MemberChanges> {
        let Self { local, raft, leadership, peers, .. } = self;
        Arc::new(MemberChanges::new(
            local.clone(),
            raft.clone(),
            leadership.clone(),
            peers.clone(),
            leader.clone(),
        ))
    }

    fn state_check(&self) -> Arc<StateCheck> {
        let Self { local, applied, leadership, peers, .. } = self;
        Arc::new(StateCheck::new(local.clone(), applied.clone(), leadership.clone(), peers.clone()))
    }

    fn bootstrap(&self, fingerprint: u128) -> Arc<Bootstrap> {
        Arc::new(Bootstrap::new(
            self.local.clone(),
            self.raft.clone(),
            self.leadership.clone(),
            self.recovery.clone(),
            self.peers.clone(),
            fingerprint,
        ))
    }

    fn snapshot_driver(&self, snapshot_due: Arc<Notify>) -> SnapshotDriver {
        SnapshotDriver::new(
            self.local.clone(),
            self.raft.clone(),
            self.log.clone(),
            self.applied.clone(),
            self.snapshots.clone(),
            self.peers.clone(),
            snapshot_due,
        )
    }

    fn disk_watch(&self, transfer: &Arc<LeadershipTransfer>) -> DiskWatch {
        let Self { local, raft, leadership, .. } = self;
        DiskWatch::new(local.clone(), raft.clone(), leadership.clone(), transfer.clone())
    }

    fn member_watch(&self) -> Arc<MemberWatch> {
        Arc::new(MemberWatch::new(self.local.clone(), self.raft.clone(), self.leadership.clone()))
    }

    fn observer(&self, state_check: &Arc<StateCheck>) -> Arc<RaftObserver> {
        Arc::new(RaftObserver {
            local: self.local.clone(),
            raft: self.raft.clone(),
            applied: self.applied.clone(),
            leadership: self.leadership.clone(),
            recovery: self.recovery.clone(),
            peers: self.peers.clone(),
            state_check: state_check.clone(),
        })
    }

    fn status(&self, state_check: &Arc<StateCheck>, member_watch: &Arc<MemberWatch>) -> StatusReporter {
        StatusReporter {
            local: self.local.clone(),
            raft: self.raft.clone(),
            applied: self.applied.clone(),
            snapshots: self.snapshots.clone(),
            leadership: self.leadership.clone(),
            recovery: self.recovery.clone(),
            lag: self.lag.clone(),
            peers: self.peers.clone(),
            state_check: state_check.clone(),
            member_watch: member_watch.clone(),
            begun: Instant::now(),
        }
    }

    fn rpc(&self, calls: CallRpc, messages: Arc<dyn PeerMessages>) -> Arc<PeerRpc> {
        let Self { local, raft, applied, snapshots, leadership, lag, .. } = self;
        let installer = Arc::new(SnapshotInstaller::new(local.clone(), raft.clone(), applied.clone()));
        let raft = Arc::new(RaftRpc {
            local: local.clone(),
            raft: raft.clone(),
            leadership: leadership.clone(),
            lag: lag.clone(),
            installer: installer.clone(),
        });
        let snapshots = SnapshotRpc { local: local.clone(), snapshots: snapshots.clone(), installer };
        Arc::new(PeerRpc { raft, snapshots, calls, messages })
    }
}
