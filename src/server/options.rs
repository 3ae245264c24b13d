//! Settings of the RocketMQ port.

use super::limits::{DeadPeer, Limits};
use crate::wire::Serialization;

/// Settings of a server.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// Limits for its peers.
    pub limits: Limits,
    /// How the server detects that a broker's host has vanished.
    pub dead_peer: DeadPeer,
    /// How it writes responses and notices, whatever the serialization of the request.
    pub serialization: Serialization,
}
