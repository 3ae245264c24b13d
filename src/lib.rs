//! raft-namesrv: a nameserver cluster for Apache RocketMQ. The nodes are one Raft group.
//!
//! ```text
//! bytes → frame → RemotingCommand → Request ─┬─ read  → table of this node → Reply ──────────┐
//!                                            └─ write → Command → propose → Outcome → Reply ─┴→ bytes
//! ```
//!
//! From the bottom up, each module uses only those above it in this list:
//!
//! - [`counter`], `warn_limit`: a counter for metrics, a limit for warnings that a peer can cause. [`budget`]: the bytes
//!   that all client connections may hold together.
//! - `printable`: text of others as a log or a terminal may show it. `logging`: the log of a node.
//! - [`wire`]: bytes ⇄ [`wire::RemotingCommand`].
//! - [`protocol`]: [`wire::RemotingCommand`] ⇄ [`protocol::Request`] and [`protocol::Reply`], and their JSON bodies.
//! - [`route_cache`]: encoded routes. [`handlers`]: the rules of a nameserver, synchronous.
//! - [`liveness`]: which brokers are alive.
//! - [`event_log`]: the events of applied entries as log lines.
//! - [`min_broker_id`]: notices of a changed lowest broker id.
//! - [`service`]: carries requests out; the only way of a request to Raft.
//! - [`server`]: sockets, limits, drain.
//! - [`node`]: settings, ports and handles of a node. `data_directory`: opens its files.
//! - [`admin`]: the HTTP port. `run`: starts and stops a node.
//! - [`config`]: the settings of a node from flags, environment and file; [`cli`]: the command line.

pub mod admin;
pub mod budget;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod checks;
pub mod cli;
pub mod config;
pub mod counter;
mod data_directory;
pub mod event_log;
pub mod handlers;
pub mod liveness;
mod logging;
pub mod min_broker_id;
pub mod node;
mod printable;
pub mod protocol;
pub mod route_cache;
mod run;
pub mod server;
pub mod service;
mod warn_limit;
pub mod wire;

pub use node::{Listeners, NodeConfig, RunError, RunningNode};
pub use run::run;
