//! Adapters between openraft and this crate.

pub(crate) mod applied_state;
pub(crate) mod config;
pub(crate) mod log_store;
pub(crate) mod membership_codec;
pub(crate) mod network;
pub(crate) mod runtime;
pub(crate) mod snapshot;
pub(crate) mod state_machine;
pub(crate) mod table_chunks;
pub(crate) mod types;
