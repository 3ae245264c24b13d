//! The way of a command into the log, and read barriers.
//!
//! ```text
//! proposer ─▶ leader_client (another node leads) ─▶ that node's proposer
//!    └──────▶ queue ─▶ batcher ─▶ log;  in_flight: waiters of commands that are proposed and not applied
//! ```
//!
//! - [`entry`]: commands as the bytes of an entry, which must be readable before they are appended.
//! - [`outcome`]: what comes of a request to the leader; [`wire`] turns it into a reply and back.
//! - [`leader_client`]: asks the leader, wherever it is, until the deadline.
//! - [`catch_up`]: asks the leader how far a node that starts must catch up.

pub(crate) mod batcher;
pub(crate) mod catch_up;
mod entry;
mod in_flight;
pub(crate) mod leader_client;
pub(crate) mod outcome;
pub(crate) mod proposer;
pub(crate) mod queue;
pub(crate) mod read_barrier;
pub(crate) mod wire;
