//! Starts and stops a node, for the program and for tests alike.

mod background;
mod consensus_runtime;
mod settings_mismatch;

use crate::data_directory::{self, DataDirectory};
use crate::liveness::{self, Liveness};
use crate::node::{Listeners, NodeConfig, RunError, RunningNode};
use crate::server::Server;
use crate::service::{Ready, Service};
use background::BackgroundTasks;
use consensus_runtime::{ConsensusRuntime, adopt};
use raft::{Member, TcpPeers};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use storage::log::LogOptions;
use storage::runtime::{Runtime, SystemRuntime};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// A node that is not ready accepts connections after this nevertheless: it then answers that it is not ready.
const ACCEPT_AT_THE_LATEST: Duration = Duration::from_secs(1);
/// How long a stopping leader tries to transfer its leadership.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a node until `shutdown` resolves, or Raft or the disk fails. Calls `started` once brokers and clients can
/// connect.
///
/// # Errors
/// See [`RunError`]: the node could not start, or had to end.
pub async fn run(
    config: NodeConfig,
    listeners: Listeners,
    shutdown: impl Future<Output = ()>,
    started: impl FnOnce(&RunningNode),
) -> Result<(), RunError> {
    let runtime: Arc<dyn Runtime> = Arc::new(SystemRuntime);
    let address = local(&listeners.clients)?;
    let peer_address = local(&listeners.peers)?;
    let http_address = listeners.http.as_ref().map(local).transpose()?;
    let log = LogOptions { cache_bytes: config.recent_log_bytes, ..LogOptions::default() };
    let directory = data_directory::open(&config.data, config.node_id, Arc::clone(&runtime), log).await?;
    let parts = Liveness::new(config.liveness.clone(), Arc::clone(&runtime));
    let liveness::Parts { liveness, messages, expired } = parts;
    let consensus = ConsensusRuntime::start()?;
    let peers = consensus.run(async { adopt(listeners.peers).map(TcpPeers::new).map(Arc::new) }).await??;
    let network = Arc::clone(&peers);
    let parts = raft::Parts {
        log: Arc::clone(&directory.log),
        snapshots: Arc::clone(&directory.snapshots),
        runtime: Arc::clone(&runtime),
        network,
        directory_id: directory.id,
        directory: Arc::clone(&directory.state),
        messages,
    };
    let opening = Box::pin(raft::Node::open(raft_options(&config, peer_address), parts));
    let node = consensus.run(opening).await??;
    liveness.start(node.clone());

    let service = Arc::new(Service::new(
        node.clone(),
        liveness.clone(),
        runtime,
        config.settings.clone(),
        config.service.clone(),
    ));
    let running = RunningNode {
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
    let background = BackgroundTasks::start(&running, &config, listeners.http);
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
    stop(&running, &directory).await;
    peers.close();
    drop(background);
    ended.map_or(Ok(()), |why| Err(RunError::Failed(why)))
}

fn local(listener: &TcpListener) -> Result<SocketAddr, RunError> {
    listener.local_addr().map_err(|error| RunError::Listen(error.to_string()))
}

fn raft_options(config: &NodeConfig, peer_address: SocketAddr) -> raft::Options {
    let alone = || vec![Member { id: config.node_id, address: peer_address.to_string() }];
    raft::Options {
        node_id: config.node_id,
        members: if config.members.is_empty() { alone() } else { config.members.clone() },
        timing: config.timing,
        secret: config.secret.clone(),
        initial_commands: config.bootstrap.clone(),
        snapshots: config.snapshots,
        batch_commands_max: config.batch_commands_max,
    }
}

async fn until_ready(service: &Service) {
    let mut ready = service.ready();
    let _ = tokio::time::timeout(ACCEPT_AT_THE_LATEST, ready.wait_for(|ready| *ready != Ready::No)).await;
}

/// Refuses new requests, transfers leadership, finishes the requests in flight, and ends.
async fn stop(running: &RunningNode, directory: &DataDirectory) {
    running.service.stop();
    let other_voters = running.node.status().members.iter().filter(|m| m.voter).count() > 1;
    if other_voters && running.node.is_leader_with_lease().is_some() {
        // The requests in flight finish through the new leader.
        if let Err(error) = running.node.transfer(None, Instant::now() + TRANSFER_TIMEOUT).await {
            tracing::warn!(%error, "leadership could not be transferred before stopping");
        }
    }
    running.server.stop().await;
    running.liveness.stop();
    running.node.shutdown().await;
    directory.close().await;
}
