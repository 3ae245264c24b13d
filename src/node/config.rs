//! The settings of a node, parsed and checked.

use crate::handlers::NodeSettings;
use crate::liveness::LivenessOptions;
use crate::server::ServerOptions;
use crate::service::ServiceOptions;
use raft::{Member, NodeId, SnapshotPolicy, Timing};
use std::path::PathBuf;
use storage::Command;
use storage::log::LogOptions;

/// Everything that a node is started with.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// Id of this node.
    pub node_id: NodeId,
    /// Its data directory.
    pub data: PathBuf,
    /// The members that bootstrap the cluster, this node among them; empty: a cluster of this node alone.
    pub members: Vec<Member>,
    /// Shared secret of the peer protocol.
    pub secret: Vec<u8>,
    /// Raft's heartbeats and elections.
    pub timing: Timing,
    /// When the node makes snapshots.
    pub snapshots: SnapshotPolicy,
    /// Most commands in a log entry.
    pub batch_commands_max: usize,
    /// Recent log entries kept in memory, bytes.
    pub recent_log_bytes: usize,
    /// First commands of a new cluster: the replicated settings of the file.
    pub bootstrap: Vec<Command>,
    /// Settings of this node that code 319 shows and code 318 does not change.
    pub settings: NodeSettings,
    /// How requests are carried out.
    pub service: ServiceOptions,
    /// The RocketMQ port.
    pub server: ServerOptions,
    /// Connections of operators at one time, HTTP.
    pub http_connections_max: usize,
    /// Brokers that this node sends min-broker-id notices to at one time, each over a connection.
    pub notice_connections_max: usize,
    /// When brokers expire.
    pub liveness: LivenessOptions,
}

impl NodeConfig {
    /// See `http_connections_max`: an idle one gives way to a new one, so more than the requests under way are not needed.
    pub const HTTP_CONNECTIONS_MAX: usize = 32;
    /// See `notice_connections_max`.
    pub const NOTICE_CONNECTIONS_MAX: usize = 1_024;

    /// A one-node cluster with the defaults.
    #[must_use]
    pub fn new(node_id: NodeId, data: PathBuf) -> Self {
        Self {
            node_id,
            data,
            members: Vec::new(),
            secret: Vec::new(),
            timing: Timing::default(),
            snapshots: SnapshotPolicy::default(),
            batch_commands_max: raft::Options::BATCH_COMMANDS_MAX,
            recent_log_bytes: LogOptions::default().cache_bytes,
            bootstrap: Vec::new(),
            settings: NodeSettings::default(),
            service: ServiceOptions::new(node_id),
            server: ServerOptions::default(),
            http_connections_max: Self::HTTP_CONNECTIONS_MAX,
            notice_connections_max: Self::NOTICE_CONNECTIONS_MAX,
            liveness: LivenessOptions::new(node_id),
        }
    }
}
