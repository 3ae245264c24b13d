//! What the listener and all connections of a server share.

use super::admission::Admission;
use super::counters::Counters;
use super::options::ServerOptions;
use super::registry::Registry;
use crate::service::Service;
use crate::warn_limit::WarnLimit;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Shared by the listener and all connections.
pub(super) struct Shared {
    pub(super) service: Arc<Service>,
    pub(super) options: ServerOptions,
    pub(super) counters: Arc<Counters>,
    pub(super) admission: Admission,
    pub(super) registry: Registry,
    /// Number of the next session.
    pub(super) next_session: AtomicU64,
    pub(super) warnings: Warnings,
}

/// Limits of the warnings that peers can cause.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    pub(super) broken_frame: WarnLimit,
    pub(super) tls: WarnLimit,
    pub(super) refused: WarnLimit,
    pub(super) busy: WarnLimit,
    pub(super) slow_reader: WarnLimit,
    pub(super) slow_frame: WarnLimit,
    pub(super) accept: WarnLimit,
}
