//! Connects to the address of a node, and shakes hands.

use super::authorize::{log_truncated_tail, node_key, refused_by_peer, version_key};
use super::connection::Connection;
use super::handshake::{self, ChannelKind, Client, HandshakeError, PROTOCOL, Refusal};
use super::node_info::NodeInfo;
use super::stream::PeerNetwork;
use crate::api::NodeId;
use crate::local::LocalNode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// To connect to one address and shake hands.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(2);

/// Connects to other nodes.
pub(crate) struct Dialer {
    local: Arc<LocalNode>,
    network: Arc<dyn PeerNetwork>,
}

impl Dialer {
    /// A dialer of this node.
    pub(crate) fn new(local: Arc<LocalNode>, network: Arc<dyn PeerNetwork>) -> Self {
        Self { local, network }
    }

    /// This node.
    pub(crate) fn local(&self) -> &LocalNode {
        &self.local
    }

    /// Tries the addresses of a node one after the other. `directory`: the data directory that the node must have.
    pub(crate) async fn connect(
        &self,
        target: NodeId,
        channel: ChannelKind,
        directory: Option<u128>,
    ) -> Result<Connection, String> {
        let mut failure = format!("no address of node {target} is known");
        for address in self.local.addresses(target) {
            match self.connect_to(target, channel, directory, &address).await {
                Ok(connection) => return Ok(connection),
                Err(e) => failure = format!("{address}: {e}"),
            }
        }
        Err(failure)
    }

    /// Connects to one address, which must be the target.
    pub(crate) async fn connect_to(
        &self,
        target: NodeId,
        channel: ChannelKind,
        directory: Option<u128>,
        address: &str,
    ) -> Result<Connection, String> {
        let local = &self.local;
        let attempt = async {
            let mut stream = self.network.connect(address).await?;
            let client = Client {
                protocol: PROTOCOL,
                secret: &local.options.secret,
                channel,
                target,
                target_directory: directory,
                info: NodeInfo::of(local),
                nonce: handshake::nonce(local.runtime.as_ref()),
            };
            let info = handshake::connect(&mut stream, client).await?;
            Ok::<_, HandshakeError>((stream, info))
        };
        let connected = timeout(CONNECT_MAX, attempt).await;
        if !matches!(connected, Ok(Err(HandshakeError::Refused(Refusal::OtherVersion(_), _)))) {
            local.alerts.clear(&version_key(target));
        }
        let (stream, info) = match connected {
            Ok(Ok(connected)) => connected,
            Ok(Err(HandshakeError::Refused(refusal, _))) => {
                refused_by_peer(local, target, address, &refusal);
                return Err(refusal.to_string());
            }
            Ok(Err(HandshakeError::Secret)) => {
                local.alerts.set_while_repeated(
                    &node_key(target),
                    format!(
                        "node {target} at {address} has another peer secret: it must be the same on all nodes"
                    ),
                );
                return Err("the peer has another secret".into());
            }
            Ok(Err(HandshakeError::Broken(e))) => return Err(e.to_string()),
            Err(_) => return Err("not connected in time".into()),
        };
        if info.node_id != target {
            return Err(format!("this is node {}", info.node_id));
        }
        local.alerts.clear(&node_key(target));
        log_truncated_tail(local, &info);
        Ok(Connection::new(stream, info, &local.lifecycle.tasks, &local.lifecycle.stop))
    }
}
