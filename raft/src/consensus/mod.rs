//! Adapters between openraft and this project: openraft calls them, and the other rooms call openraft by [`raft::Raft`].
//!
//! - [`types`]: the types that openraft works with, log ids and votes; [`config`], [`runtime`].
//! - [`conversions`], [`membership_codec`]: entries, messages and memberships ⇄ openraft's.
//! - [`log_store`]: openraft's log over `storage`'s.
//! - [`state_machine`]: openraft's state machine over the tables; [`applied_state`] publishes what it applied.
//! - [`snapshot`]: snapshots made from the applied state, and read back.
//! - [`network`]: openraft's network over the channels to peers.

pub(crate) mod applied_state;
pub(crate) mod config;
pub(crate) mod conversions;
pub(crate) mod log_store;
pub(crate) mod membership_codec;
pub(crate) mod network;
pub(crate) mod raft;
pub(crate) mod runtime;
pub(crate) mod snapshot;
pub(crate) mod state_machine;
pub(crate) mod types;
