//! The handles of a node's parts while it runs.

use crate::event_log::ConflictCounters;
use crate::liveness::Liveness;
use crate::min_broker_id::NoticeCounters;
use crate::server::Server;
use crate::service::Service;
use std::net::SocketAddr;
use std::sync::Arc;

/// A node that runs. Cheap to clone.
#[derive(Clone)]
pub struct RunningNode {
    /// Address for brokers and clients.
    pub address: SocketAddr,
    /// Address for the other nodes.
    pub peer_address: SocketAddr,
    /// Address for operators, if the node serves HTTP.
    pub http_address: Option<SocketAddr>,
    /// Consensus.
    pub node: raft::Node,
    /// Requests.
    pub service: Arc<Service>,
    /// The RocketMQ port.
    pub server: Server,
    /// Which brokers are alive.
    pub liveness: Liveness,
    /// Min-broker-id notices that this node sent.
    pub notices: Arc<NoticeCounters>,
    /// Conflicts between brokers that this node applied.
    pub conflicts: Arc<ConflictCounters>,
}
