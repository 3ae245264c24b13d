//! Consensus for raft-namesrv: one Raft group over the log and the tables of `storage`.
//!
//! The only crate that names openraft, and it does not show it: [`Node`] is the whole surface. It knows no
//! RocketMQ: commands and outcomes are data to it.
//!
//! The rooms, from top to bottom; each uses only rooms below it:
//!
//! | room | what it holds |
//! | --- | --- |
//! | [`node`] | the façade; makes the owners and starts the tasks |
//! | [`rpc_handlers`] | requests from other nodes |
//! | [`observer`] | follows openraft's metrics and tells the owners |
//! | [`health`] | status, disk watch, state check, truncated tail |
//! | [`membership`] | bootstrap, changes of the members, leadership transfer |
//! | [`proposals`] | a command's way into the log, the request to the leader, read barriers |
//! | [`snapshots`] | when snapshots are made and installed, and the log is purged |
//! | [`leader`] | the leader, its lease, the contact with it; whether this node has caught up, and keeps up |
//! | [`consensus`] | the adapters between openraft and this project |
//! | [`peer`] | the peer protocol: streams, handshake, frames, messages, channels, the peer port |
//! | [`local`] | this node's identity, members, alerts, tasks |
//! | [`api`] | the types of the façade |

mod api;
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
pub use local::{background, niceness, set_niceness};
pub use node::{Node, Parts};
pub use peer::{BoxedStream, NetworkFuture, PeerNetwork, PeerStream, TcpPeers};
