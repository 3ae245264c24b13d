//! A node: the real consensus, tables, liveness, service and server on a machine of the simulation.

use crate::dice::{Dice, SeededRuntime};
use crate::disk::{Disk, OpenDisk};
use crate::host::{Clock, Host, Moment};
use crate::invariants::routes::Readiness;
use crate::network::{Network, PEERS_PATIENCE, Place, SimPeers, client_address, peer_address};
use crate::record::Record;
use raft::{Member, NodeId, Options, Parts, SnapshotPolicy, Timing};
use raft_namesrv::handlers::NodeSettings;
use raft_namesrv::liveness::{self, Liveness, LivenessOptions, SessionId};
use raft_namesrv::min_broker_id;
use raft_namesrv::server::{Server, ServerOptions};
use raft_namesrv::service::{ReadinessOptions, Ready, Service, ServiceOptions};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use storage::command::{Change, Command, Origin, UpdateSettings};
use storage::runtime::Runtime;
use storage::snapshots::Snapshots;
use tokio::sync::mpsc;
use tokio::time::Instant;

pub(crate) const NODES: [NodeId; 3] = [1, 2, 3];
/// How long a leader tries to hand over.
const TRANSFER_WITHIN: Duration = Duration::from_secs(2);
/// How long the guard keeps brokers whose timeout has passed: as long as a run has time for.
pub(crate) const GUARD_HOLD: Duration = Duration::from_secs(4);

/// What nodes are started with in one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) guard: bool,
    /// Entries between two snapshots.
    pub(crate) snapshot_entries: u64,
    /// Of so many writes of a disk, one hangs.
    pub(crate) disk_hangs_of: u64,
    pub(crate) readiness: Readiness,
    /// Sessions that a node tracks, if there is no room for all.
    pub(crate) sessions_max: Option<usize>,
}

pub(crate) struct SimNode {
    id: NodeId,
    setup: Setup,
    disk: Arc<Disk>,
    network: Arc<Network>,
    record: Arc<Record>,
    process: Option<Process>,
    processes: u64,
    pub(crate) paused_until: Moment,
    stopping: bool,
}

/// A running process.
struct Process {
    host: Host,
    node: Opened,
}

/// What a process has once it has opened its consensus.
type Opened = Arc<Mutex<Option<Running>>>;

/// What a process works with.
#[derive(Clone)]
struct Running {
    node: raft::Node,
    liveness: Liveness,
    service: Arc<Service>,
    server: Server,
}

impl SimNode {
    pub(crate) fn new(id: NodeId, setup: Setup, network: &Arc<Network>, record: &Arc<Record>) -> Self {
        Self {
            id,
            setup,
            disk: Arc::default(),
            network: Arc::clone(network),
            record: Arc::clone(record),
            process: None,
            processes: 0,
            paused_until: Moment::ZERO,
            stopping: false,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.process.is_some()
    }

    pub(crate) fn runs(&self, now: Moment) -> bool {
        self.is_up() && self.paused_until <= now
    }

    /// It was asked to stop: from some moment on it applies nothing more.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_up() && self.stopping
    }

    /// Its consensus, once it is open.
    pub(crate) fn node(&self) -> Option<raft::Node> {
        Some(self.running()?.node)
    }

    /// What its consensus reports, by this machine's clock.
    pub(crate) fn status(&self) -> Option<raft::Status> {
        let node = self.node()?;
        Some(self.process.as_ref()?.host.on(|| node.status()))
    }

    /// It answers look-ups, and not only with what may be old.
    pub(crate) fn is_ready(&self) -> bool {
        self.running().is_some_and(|running| *running.service.ready().borrow() == Ready::Yes)
    }

    fn running(&self) -> Option<Running> {
        self.process.as_ref()?.node.lock().unwrap().clone()
    }

    /// It asks for leadership to be handed to another.
    pub(crate) fn transfers_leadership_to(&self, to: NodeId) {
        let (Some(process), Some(running)) = (&self.process, self.running()) else { return };
        process.host.spawn(async move {
            // Another leader, or none: then it stays as it is.
            let _ = running.node.transfer(Some(to), Instant::now() + TRANSFER_WITHIN).await;
        });
    }

    /// It is asked to stop, in the order in which the program does it. What is left after a while must be killed.
    pub(crate) fn stops(&mut self) {
        self.stopping = true;
        let (Some(process), Some(running)) = (&self.process, self.running()) else { return };
        process.host.spawn(async move {
            running.service.stop();
            if running.node.is_leader_with_lease().is_some() {
                let _ = running.node.transfer(None, Instant::now() + TRANSFER_WITHIN).await;
            }
            running.server.stop().await;
            running.liveness.stop();
            running.node.shutdown().await;
        });
    }

    pub(crate) fn start(&mut self, now: Moment) {
        self.processes += 1;
        let mut dice = Dice::of(self.setup.seed, "process", self.id << 32 | self.processes);
        self.network.power_on(self.id);
        let host = Host::new(now, dice.next());
        let opened = Arc::new(Mutex::new(None));
        let starting = Starting {
            id: self.id,
            setup: self.setup,
            clock: host.clock,
            disk: Arc::clone(&self.disk),
            network: Arc::clone(&self.network),
            record: Arc::clone(&self.record),
            runtime: Arc::new(SeededRuntime::new(dice.clone(), dice.within(0, 1 << 40))),
            dice,
        };
        host.spawn(starting.run(Arc::clone(&opened)));
        (self.paused_until, self.stopping) = (now, false);
        self.record.process_started(now, self.id);
        self.process = Some(Process { host, node: opened });
    }

    pub(crate) fn run_until(&mut self, at: Moment) {
        if self.paused_until >= at {
            return;
        }
        if let Some(process) = &mut self.process {
            process.host.run_until(at);
        }
    }

    pub(crate) fn disk_is_slow_until(&self, until: Moment) {
        self.disk.is_slow_until(until);
    }

    /// What it thinks of itself and of the brokers.
    pub(crate) fn tell(&self) -> String {
        let Some(process) = &self.process else { return format!("node {} is down", self.id) };
        let Some(running) = self.running() else { return "not open".into() };
        process.host.on(|| format!("{:?}\n{:#?}", running.node.status(), running.liveness.status()))
    }

    /// The process is killed: what it wrote is there, synced or not; its connections are closed by the kernel.
    pub(crate) fn kill(&mut self) {
        self.disk.files.kill();
        // Before its tasks are dropped: in which order tokio does that depends on how many there were in the program.
        self.network.process_ended(self.id);
        drop(self.process.take());
        self.record.process_ended(self.id);
    }

    /// The power goes: what was not synced may be lost, and no peer gets an end of its connections.
    pub(crate) fn power_cut(&mut self, seed: u64) {
        self.network.power_off(self.id);
        self.disk.files.power_cut(seed);
        drop(self.process.take());
        self.record.process_ended(self.id);
    }
}

/// A process in its first moments.
struct Starting {
    id: NodeId,
    setup: Setup,
    clock: Clock,
    disk: Arc<Disk>,
    network: Arc<Network>,
    record: Arc<Record>,
    runtime: Arc<dyn Runtime>,
    dice: Dice,
}

impl Starting {
    async fn run(mut self, opened: Opened) {
        let disk = match self.disk.open(self.id, Arc::clone(&self.runtime), &self.record) {
            Ok(disk) => disk,
            Err(error) => return self.record.violation(error),
        };
        let (log, clock, dice) = (Arc::clone(&disk.log), self.clock, Dice::of(self.dice.next(), "disk", 0));
        let hangs_of = self.setup.disk_hangs_of;
        tokio::spawn(async move { log.write(clock, dice, hangs_of).await });
        let mut options = LivenessOptions {
            guard: self.setup.guard,
            guard_hold: GUARD_HOLD,
            ..LivenessOptions::new(self.id)
        };
        options.sessions_max = self.setup.sessions_max.unwrap_or(options.sessions_max);
        let liveness::Parts { liveness, messages, expired } =
            Liveness::new(options, Arc::clone(&self.runtime));
        self.network.listen(self.id, &peer_address(self.id), Some(PEERS_PATIENCE));
        let node = match raft::Node::open(self.options(), self.parts(disk, messages)).await {
            Ok(node) => node,
            Err(error) => {
                return self.record.violation(format!("node {} does not start: {error}", self.id));
            }
        };
        liveness.start(node.clone());
        let (mut notices, following) = min_broker_id::follow(&node, Arc::default());
        tokio::spawn(following);
        let (record, id) = (Arc::clone(&self.record), self.id);
        tokio::spawn(async move {
            while let Some(notice) = notices.recv().await {
                record.lock().noticed(clock.now(), id, notice);
            }
        });
        let (record, id) = (Arc::clone(&self.record), self.id);
        let (followed, network) = (node.clone(), Arc::clone(&self.network));
        tokio::spawn(async move { record.follow(id, followed, clock, &network).await });
        self.serve(opened, node, liveness, expired).await;
    }

    fn options(&self) -> Options {
        let members = NODES.map(|id| Member { id, address: peer_address(id) });
        let entries = self.setup.snapshot_entries;
        Options {
            node_id: self.id,
            members: members.to_vec(),
            timing: Timing::default(),
            secret: b"secret".to_vec(),
            initial_commands: vec![tells_lowest_ids()],
            snapshots: SnapshotPolicy { entries, log_bytes_max: 32 << 10, ..SnapshotPolicy::default() },
            batch_commands_max: Options::BATCH_COMMANDS_MAX,
        }
    }

    fn parts(&self, disk: OpenDisk, messages: Arc<dyn raft::PeerMessages>) -> Parts {
        let network = SimPeers { network: Arc::clone(&self.network), place: self.id, clock: self.clock };
        Parts {
            log: disk.log,
            snapshots: Arc::new(self.disk.snapshots.clone()) as Arc<dyn Snapshots>,
            runtime: Arc::clone(&self.runtime),
            network: Arc::new(network),
            directory_id: disk.directory_id,
            directory: disk.directory,
            messages,
        }
    }

    /// Brokers and clients.
    async fn serve(
        self,
        opened: Opened,
        node: raft::Node,
        liveness: Liveness,
        mut expired: mpsc::UnboundedReceiver<SessionId>,
    ) {
        let settings = NodeSettings::default();
        let mut options = ServiceOptions::new(self.id);
        let Readiness { recovery_wait, staleness_max } = self.setup.readiness;
        options.readiness = ReadinessOptions { recovery_wait, staleness_max };
        let service = Arc::new(Service::new(node.clone(), liveness.clone(), self.runtime, settings, options));
        let following = Arc::clone(&service);
        tokio::spawn(async move { following.follow().await });
        let server = Server::new(Arc::clone(&service), ServerOptions::default());
        *opened.lock().unwrap() =
            Some(Running { node: node.clone(), liveness, service, server: server.clone() });
        let closing = server.clone();
        tokio::spawn(async move {
            while let Some(session) = expired.recv().await {
                closing.expired(session);
            }
        });
        let (record, id) = (self.record, self.id);
        tokio::spawn(async move {
            let why = node.died().await;
            record.violation(format!("node {id} died: {why}"));
        });
        let address = client_address(self.id);
        // Until a broker speaks there, nothing ends a connection whose peer is out of reach.
        self.network.listen(self.id, &address, None);
        loop {
            let (stream, from) = self.network.accept(&address, self.clock).await;
            server.take(stream, peer_of(from));
        }
    }
}

/// With which the cluster begins.
fn tells_lowest_ids() -> Command {
    let properties = vec![("notifyMinBrokerIdChanged".into(), "true".into())];
    Command { origin: Origin::default(), change: Change::UpdateSettings(UpdateSettings { properties }) }
}

/// What a node sees as the peer's address.
fn peer_of(from: Place) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, u8::try_from(from).unwrap_or(255)], 4_000))
}
