//! Consensus for raft-namesrv: one Raft group over the log and the tables of `storage`.
//!
//! The only crate that names openraft, and it does not show it: [`Node`] is the whole surface. It knows no
//! RocketMQ: commands and outcomes are data to it.

mod answers;
pub mod api;
mod barrier;
mod batch_queue;
mod batcher;
mod bootstrap;
mod change_members;
mod config;
mod context;
mod core;
mod cut_tail;
mod disk_watch;
mod forward;
mod hash_check;
mod leadership;
mod log_store;
mod machine;
mod membership;
mod network;
mod node;
mod notices;
mod peer;
mod published;
mod raft_runtime;
mod snapshot;
mod snapshot_driver;
mod status;
mod table_chunks;
mod transfer;
mod types;

pub use api::*;
pub use node::{Node, Parts};
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use peer::checks;
pub use peer::{BoxedStream, NetworkFuture, PeerNetwork, PeerStream, TcpPeers};
