//! What a raft-namesrv cluster remembers.
//!
//! ```text
//! Command ──▶ log (own write-ahead log) ──▶ RouteInfo::apply ──▶ Outcome
//!                                              │
//!                                              └─▶ snapshots (sled)
//! ```
//!
//! - [`command`]: every change of the cluster's state as data; [`Outcome`] is what it came to.
//! - [`removed`]: registrations that a removal on its way into the tables concerns.
//! - [`route_info`]: the tables of a nameserver, with `apply` as the only door to change them.
//! - [`log`]: entries, vote and bookkeeping, synced before they are acknowledged; [`log_place`]: a place in its files.
//! - [`snapshots`]: whole states, so that the log can be purged.
//! - [`directory`]: a node's data directory, locked and checked by its [`marker`].
//! - [`mod@format`]: how all of this becomes bytes; the only file that names bincode.
//! - [`limits`]: how large all of this may be, in one table.
//! - [`runtime`], [`files`]: wall clock, randomness and files behind small traits, so that a simulation can own them.
//!
//! This crate knows no network and no consensus.

#[cfg(any(test, fuzzing, feature = "test-kit"))]
#[doc(hidden)]
pub mod checks;
pub mod command;
pub mod directory;
pub mod disk;
pub mod files;
pub mod format;
pub mod limits;
pub mod log;
pub mod log_id;
pub mod log_place;
pub mod marker;
mod open_error;
pub mod outcome;
pub mod position;
pub mod removed;
pub mod route_info;
pub mod runtime;
pub mod settings;
pub mod snapshots;
pub mod split_mix;

pub use command::{Change, Command};
pub use log_id::{LogId, Vote};
pub use outcome::Outcome;
pub use position::{At, Position};
pub use route_info::RouteInfo;
pub use settings::Settings;
