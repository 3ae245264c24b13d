//! How nodes talk to each other: streams, handshake, frames.

mod stream;

pub use stream::{BoxedStream, NetworkFuture, PeerNetwork, PeerStream, TcpPeers};
