//! What all registrations of a node share.

use super::conflict_log::ConflictLog;
use super::counters::RegistrationCounters;
use super::digest_cache::DigestCache;
use super::implausible_addresses::ImplausibleAddresses;
use super::topic_flapping::TopicFlapping;
use crate::budget::Budgets;
use crate::liveness::Liveness;
use crate::protocol::registration::RegistrationLimits;
use crate::service::proposer::Proposer;
use raft::Node;
use std::sync::Arc;
use storage::RouteInfo;
use tokio::sync::Semaphore;

/// The state that outlives one registration: digests, permits, counters, and the way to Raft and to liveness.
pub(in crate::service) struct Registrar {
    pub(super) node: Node,
    pub(super) liveness: Liveness,
    pub(super) proposer: Arc<Proposer>,
    pub(super) limits: RegistrationLimits,
    /// One permit per registration that may be parsed at one time.
    pub(super) parsing: Semaphore,
    pub(super) budgets: Arc<Budgets>,
    pub(super) digests: DigestCache,
    pub(super) counters: Arc<RegistrationCounters>,
    pub(super) conflicts: ConflictLog,
    pub(super) flapping: TopicFlapping,
    pub(super) addresses: ImplausibleAddresses,
}

impl Registrar {
    pub(in crate::service) fn new(
        node: Node,
        liveness: Liveness,
        proposer: Arc<Proposer>,
        limits: RegistrationLimits,
        budgets: Arc<Budgets>,
        counters: Arc<RegistrationCounters>,
    ) -> Self {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            node,
            liveness,
            proposer,
            limits,
            parsing: Semaphore::new(threads.max(2)),
            budgets,
            digests: DigestCache::default(),
            counters,
            conflicts: ConflictLog::default(),
            flapping: TopicFlapping::default(),
            addresses: ImplausibleAddresses::default(),
        }
    }

    pub(super) fn table(&self) -> Arc<RouteInfo> {
        self.node.table()
    }
}
