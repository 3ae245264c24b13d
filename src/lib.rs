//! raft-namesrv: a nameserver cluster for Apache RocketMQ. The nodes are one Raft group.
//!
//! ```text
//! bytes → frame → RemotingCommand → Request ─┬─ read  → table of this node → Reply ──────────┐
//!                                            └─ write → Command → propose → Outcome → Reply ─┴→ bytes
//! ```
//!
//! - [`wire`]: bytes ⇄ [`wire::RemotingCommand`].
//! - [`protocol`]: [`wire::RemotingCommand`] ⇄ [`protocol::Request`] and [`protocol::Reply`], and their JSON bodies.
//! - [`handlers`]: the rules of a nameserver, synchronous.
//! - [`service`]: carries requests out; the only way of a request to Raft.
//! - [`server`]: sockets, limits, drain, notices to brokers.
//! - [`admin`]: the HTTP port; [`config`]: the settings of a node; [`cli`]: the command line.
//! - [`liveness`]: which brokers are alive; the only reader of the clock.

pub mod admin;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod checks;
pub mod cli;
pub mod config;
pub mod handlers;
mod listeners;
pub mod liveness;
pub mod protocol;
pub mod server;
pub mod service;
pub mod wire;

mod drift;
pub mod events;
mod run;
mod stores;
mod warn_limit;

pub use run::{Listeners, NodeConfig, RunError, Running, run};
