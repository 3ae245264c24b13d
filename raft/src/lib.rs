//! Consensus for raft-namesrv: one Raft group over the log and the tables of `storage`.
//!
//! The only crate that names openraft, and it does not show it: [`Node`] is the whole surface. It knows no
//! RocketMQ: commands and outcomes are data to it.

pub mod api;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod checks;
mod consensus;
mod health;
mod leader;
mod local;
mod membership;
mod node;
mod observer;
mod peer;
mod proposals;
mod rpc_handlers;
mod snapshots;

pub use api::*;
pub use node::{Node, Parts};
pub use peer::{BoxedStream, NetworkFuture, PeerNetwork, PeerStream, TcpPeers};
