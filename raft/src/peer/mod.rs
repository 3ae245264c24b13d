//! How nodes talk to each other: streams, handshake, frames, messages; lanes to peers, and the peer port.

pub(crate) mod channel;
pub(crate) mod connection;
pub(crate) mod frame;
pub(crate) mod handshake;
pub(crate) mod message;
pub(crate) mod peers;
pub(crate) mod server;
mod stream;

pub use stream::{BoxedStream, NetworkFuture, PeerNetwork, PeerStream, TcpPeers};
