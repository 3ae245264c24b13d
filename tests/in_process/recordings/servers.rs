//! The servers that recordings are replayed on.
//!
//! With `RECORDINGS_SERVERS=host:port,…` these are running ones, newly started, with default settings: so a build on
//! another machine, or Java, is compared. One recording at a time uses them (`--test-threads=1`).

use super::data::{Op, Recording};
use crate::nodes::{self, Node};
use raft_namesrv::NodeConfig;
use raft_namesrv::wire::Serialization;
use std::net::SocketAddr;
use tokio::sync::{Mutex, MutexGuard};

/// Which servers take a recording's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum On {
    /// The only node of a cluster.
    OneNode,
    /// A follower of three.
    Follower,
    /// All of three, one after the other.
    Spread,
}

/// Running servers.
pub(super) struct Servers {
    /// Where connections go, in turn.
    pub(super) addresses: Vec<SocketAddr>,
    /// Those that run in this process.
    nodes: Vec<Node>,
}

impl Servers {
    /// Starts fresh ones that write headers as the folder was recorded.
    pub(super) async fn start(folder: &str, on: On) -> Self {
        if let Ok(given) = std::env::var("RECORDINGS_SERVERS") {
            let addresses = given.split(',').map(|address| address.parse().unwrap()).collect();
            return Self { addresses, nodes: Vec::new() };
        }
        let serialization = match folder {
            "rocketmq" => Serialization::RocketMq,
            _ => Serialization::Json,
        };
        let change = |config: &mut NodeConfig| config.server.serialization = serialization;
        let nodes = match on {
            On::OneNode => vec![Node::alone_with(change).await],
            On::Follower | On::Spread => nodes::cluster_with(3, change).await,
        };
        let addresses = match on {
            On::OneNode | On::Spread => nodes.iter().map(Node::address).collect(),
            On::Follower => {
                let leader = nodes::leader(&nodes).await;
                vec![nodes[(leader + 1) % nodes.len()].address()]
            }
        };
        Self { addresses, nodes }
    }

    pub(super) async fn stop(self) {
        for node in self.nodes {
            node.stop().await;
        }
    }
}

/// Recordings that play a broker's port use the same two ports: one at a time.
pub(super) async fn alone(recording: &Recording) -> Option<MutexGuard<'static, ()>> {
    static PORTS: Mutex<()> = Mutex::const_new(());
    let listens = recording.steps.iter().any(|step| step.op == Op::Listen);
    if listens { Some(PORTS.lock().await) } else { None }
}
