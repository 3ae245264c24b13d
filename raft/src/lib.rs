//! Consensus for raft-namesrv: one Raft group over the log and the tables of `storage`.
//!
//! The only crate that names openraft, and it does not show it: [`Node`] is the whole surface. It knows no
//! RocketMQ: commands and outcomes are data to it.

pub mod api;
mod node;

pub use api::*;
pub use node::{Node, Parts};
