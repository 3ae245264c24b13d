//! How nodes talk to each other.
//!
//! ```text
//! peers ─▶ channel ─▶ dialer ─▶ authorize ─▶ handshake ─▶ node_info
//! server ─────────────────────▶ authorize        │
//!     both ─▶ connection ─▶ message, frame ◀──────┘
//! ```
//!
//! - [`stream`]: where connections come from: TCP, or a simulation.
//! - [`frame`]: a length, then that many bytes.
//! - [`node_info`]: what a node states of itself.
//! - [`handshake`]: which node is at the other end, proved by the shared secret.
//! - [`authorize`]: whether to talk to a node that knows the secret.
//! - [`message`]: requests and replies, and their bytes.
//! - [`connection`]: an open connection: requests out, replies in.
//! - [`dialer`]: connects to an address and shakes hands.
//! - [`channel`]: one channel to one peer, connected again when it broke.
//! - [`peers`]: all peers, by id.
//! - [`places`]: connections to the peer port at one time.
//! - [`server`]: the peer port.
//!
//! This room knows no openraft: what nodes send are structs of this project.

pub(crate) mod authorize;
pub(crate) mod channel;
pub(crate) mod connection;
pub(crate) mod dialer;
pub(crate) mod frame;
pub(crate) mod handshake;
pub(crate) mod message;
pub(crate) mod node_info;
pub(crate) mod peers;
pub(crate) mod places;
pub(crate) mod server;
mod stream;
#[cfg(test)]
mod tests;

pub use stream::{BoxedStream, NetworkFuture, PeerNetwork, PeerStream, TcpPeers};
