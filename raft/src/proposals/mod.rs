//! The way of a command into the log, and read barriers.
//!
//! ```text
//! proposer ─▶ leader_client (another node leads) ─▶ that node's proposer
//!    └──────▶ queue ─▶ batcher ─▶ log;  in_flight: waiters of commands that are proposed and not applied
//! ```
//!
//! - [`admission`]: how many bytes of commands may be on their way.
//! - [`draft`]: what of a batch goes into an entry: not what changes nothing, nor what is in flight already.
//! - [`entry`]: commands as the bytes of an entry, which must be readable before they are appended.
//! - [`outcome`]: what comes of a request to the leader; [`wire`] turns it into a reply and back.
//! - [`leader_client`]: asks the leader, wherever it is, until the deadline.
//! - [`catch_up`]: asks the leader how far a node that starts must catch up.

mod admission;
pub(crate) mod batcher;
pub(crate) mod catch_up;
mod draft;
mod entry;
mod in_flight;
pub(crate) mod leader_client;
pub(crate) mod outcome;
pub(crate) mod proposer;
pub(crate) mod queue;
pub(crate) mod read_barrier;
pub(crate) mod wire;
