//! Start and stop of a node, for the program and for tests alike.

use crate::events::ConflictCounters;
use crate::handlers::NodeSettings;
pub use crate::listeners::Listeners;
use crate::liveness::{self, Liveness, LivenessOptions};
use crate::server::notice::{self, NoticeCounters};
use crate::server::{Server, ServerOptions};
use crate::service::{Ready, Service, ServiceOptions};
use crate::stores::Stores;
use crate::{admin, drift, events, stores};
use raft::{Member, NodeId, SnapshotPolicy, TcpPeers, Timing};
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use storage::Command;
use storage::log::LogOptions;
use storage::runtime::{Runtime, SystemRuntime};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// A node that is not ready takes connections after this nevertheless: it then says itself that it is not ready.
const ACCEPT_AT_THE_LATEST: Duration = Duration::from_secs(1);
/// How long a stopping leader tries to hand leadership over.
const HAND_OVER: Duration = Duration::from_secs(1);

/// Everything that a node is started with.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// This node.
    pub node_id: NodeId,
    /// Its data directory.
    pub data: PathBuf,
    /// Members of the cluster at its birth, this node among them; empty: a cluster of this node alone.
    pub members: Vec<Member>,
    /// Shared secret of the peer protocol.
    pub secret: Vec<u8>,
    /// Heartbeats and elections.
    pub timing: Timing,
    /// When snapshots are made.
    pub snapshots: SnapshotPolicy,
    /// Most commands in a log entry.
    pub batch_commands_max: usize,
    /// Recent log entries kept in memory, bytes.
    pub recent_log_bytes: usize,
    /// First commands of a new cluster.
    pub birth: Vec<Command>,
    /// Settings that codes 318 and 319 know as this node's.
    pub settings: NodeSettings,
    /// Requests.
    pub service: ServiceOptions,
    /// The RocketMQ port.
    pub server: ServerOptions,
    /// Which brokers are alive.
    pub liveness: LivenessOptions,
}

impl NodeConfig {
    /// A one-node cluster with the defaults.
    #[must_use]
    pub fn new(node_id: NodeId, data: PathBuf) -> Self {
        let server = ServerOptions::default();
        Self {
            node_id,
            data,
            members: Vec::new(),
            secret: Vec::new(),
            timing: Timing::default(),
            snapshots: SnapshotPolicy::default(),
            batch_commands_max: raft::Options::BATCH_COMMANDS_MAX,
            recent_log_bytes: LogOptions::default().cache_bytes,
            birth: Vec::new(),
            settings: NodeSettings::new("0.0.0.0", 9876, server.limits.idle.as_secs(), ""),
            service: ServiceOptions::new(node_id),
            server,
            liveness: LivenessOptions::new(node_id),
        }
    }
}

/// A node that runs. Cheap to clone.
#[derive(Clone)]
pub struct Running {
    /// Where brokers and clients connect to.
    pub address: SocketAddr,
    /// Where other nodes connect to.
    pub peer_address: SocketAddr,
    /// Where operators look, if anywhere.
    pub http_address: Option<SocketAddr>,
    /// Consensus.
    pub node: raft::Node,
    /// Requests.
    pub service: Arc<Service>,
    /// The RocketMQ port.
    pub server: Server,
    /// Which brokers are alive.
    pub liveness: Liveness,
    /// Notices to brokers.
    pub notices: Arc<NoticeCounters>,
    /// Brokers that quarrel about a place.
    pub conflicts: Arc<ConflictCounters>,
}

/// Why a node ended, or did not start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The data directory or the settings do not fit. Exit code 1.
    #[error("{0}")]
    Refused(String),
    /// A port cannot be used. Exit code 3.
    #[error("cannot listen: {0}")]
    Listen(String),
    /// Raft or the disk. Exit code 4.
    #[error("{0}")]
    Failed(String),
}

impl From<raft::OpenError> for RunError {
    fn from(error: raft::OpenError) -> Self {
        match error {
            raft::OpenError::Refused(why) => Self::Refused(why),
            raft::OpenError::Listen { .. } => Self::Listen(error.to_string()),
            raft::OpenError::Failed(why) => Self::Failed(why),
        }
    }
}

/// Runs a node until `shutdown` resolves, or Raft or the disk dies. `started` is called once brokers and clients
/// can connect.
///
/// # Errors
/// See [`RunError`]: the node could not start, or had to end.
pub async fn run(
    config: NodeConfig,
    listeners: Listeners,
    shutdown: impl Future<Output = ()>,
    started: impl FnOnce(&Running),
) -> Result<(), RunError> {
    let runtime: Arc<dyn Runtime> = Arc::new(SystemRuntime);
    let address = local(&listeners.clients)?;
    let peer_address = local(&listeners.peers)?;
    let http_address = listeners.http.as_ref().map(local).transpose()?;
    let log = LogOptions { cache_bytes: config.recent_log_bytes, ..LogOptions::default() };
    let stores = stores::open(&config.data, config.node_id, Arc::clone(&runtime), log).await?;
    let parts = Liveness::new(config.liveness.clone(), Arc::clone(&runtime));
    let liveness::Parts { liveness, messages, expired, notices } = parts;
    let peers = Arc::new(TcpPeers::new(listeners.peers));
    let node = open_node(&config, &stores, &runtime, messages, Arc::clone(&peers), peer_address).await?;
    liveness.start(node.clone());

    let service = Arc::new(Service::new(
        node.clone(),
        liveness.clone(),
        runtime,
        config.settings.clone(),
        config.service.clone(),
    ));
    let running = Running {
        address,
        peer_address,
        http_address,
        server: Server::new(Arc::clone(&service), config.server.clone()),
        service,
        liveness,
        notices: Arc::default(),
        conflicts: Arc::default(),
        node,
    };
    let beside = Beside::start(&running, &config, notices, listeners.http);
    let (server, clients) = (running.server.clone(), listeners.clients);
    tokio::pin!(shutdown);
    let ended = tokio::select! {
        biased;
        () = &mut shutdown => None,
        why = running.node.died() => Some(why),
        () = until_ready(&running.service) => {
            let _serving = AbortOnDropHandle::new(tokio::spawn(async move { server.run(clients, expired).await }));
            started(&running);
            tokio::select! {
                biased;
                () = &mut shutdown => None,
                why = running.node.died() => Some(why),
            }
        }
    };
    stop(&running, &stores).await;
    peers.close();
    drop(beside);
    ended.map_or(Ok(()), |why| Err(RunError::Failed(why)))
}

fn local(listener: &TcpListener) -> Result<SocketAddr, RunError> {
    listener.local_addr().map_err(|error| RunError::Listen(error.to_string()))
}

async fn open_node(
    config: &NodeConfig,
    stores: &Stores,
    runtime: &Arc<dyn Runtime>,
    messages: Arc<dyn raft::PeerMessages>,
    peers: Arc<TcpPeers>,
    peer_address: SocketAddr,
) -> Result<raft::Node, RunError> {
    let alone = || vec![Member { id: config.node_id, address: peer_address.to_string() }];
    let options = raft::Options {
        node_id: config.node_id,
        members: if config.members.is_empty() { alone() } else { config.members.clone() },
        timing: config.timing,
        secret: config.secret.clone(),
        initial_commands: config.birth.clone(),
        snapshots: config.snapshots,
        batch_commands_max: config.batch_commands_max,
    };
    let parts = raft::Parts {
        log: Arc::clone(&stores.log),
        snapshots: Arc::clone(&stores.snapshots),
        runtime: Arc::clone(runtime),
        network: peers,
        directory_id: stores.directory_id,
        directory: Arc::clone(&stores.directory),
        messages,
    };
    Ok(raft::Node::open(options, parts).await?)
}

async fn until_ready(service: &Service) {
    let mut ready = service.ready();
    let _ = tokio::time::timeout(ACCEPT_AT_THE_LATEST, ready.wait_for(|ready| *ready != Ready::No)).await;
}

/// Refuses new work, hands leadership over, finishes what is under way, and ends.
async fn stop(running: &Running, stores: &Stores) {
    running.service.stop();
    let others = running.node.status().members.iter().filter(|m| m.voter).count() > 1;
    if others && running.node.is_leader_with_lease().is_some() {
        // What is under way finishes through the new leader.
        if let Err(error) = running.node.transfer(None, Instant::now() + HAND_OVER).await {
            tracing::warn!(%error, "leadership could not be handed over before stopping");
        }
    }
    running.server.stop().await;
    running.liveness.stop();
    running.node.shutdown().await;
    stores.close().await;
}

/// Tasks that live as long as the node.
struct Beside {
    _tasks: Vec<AbortOnDropHandle<()>>,
}

impl Beside {
    fn start(
        running: &Running,
        config: &NodeConfig,
        notices: tokio::sync::mpsc::Receiver<liveness::MinBrokerIdNotice>,
        http: Option<TcpListener>,
    ) -> Self {
        let service = Arc::clone(&running.service);
        let (counters, serialization) = (Arc::clone(&running.notices), config.server.serialization);
        let mut tasks = vec![
            tokio::spawn(async move { service.follow().await }),
            tokio::spawn(notice::send_all(notices, serialization, counters)),
            tokio::spawn(events::log_all(running.node.clone(), Arc::clone(&running.conflicts))),
            tokio::spawn(events::log_kv_sizes(running.node.clone())),
            tokio::spawn(drift::warn_once(
                running.node.clone(),
                Arc::clone(&running.service),
                config.birth.clone(),
            )),
        ];
        if let Some(http) = http {
            tasks.push(tokio::spawn(admin::serve(http, running.clone())));
        }
        Self { _tasks: tasks.into_iter().map(AbortOnDropHandle::new).collect() }
    }
}
