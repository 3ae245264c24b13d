//! Settings of the service.

use super::ReadinessOptions;
use crate::budget::BudgetLimits;
use crate::protocol::ReadMode;
use crate::protocol::registration::RegistrationLimits;
use std::time::Duration;

/// How this node carries requests out.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// Id of this node.
    pub node_id: raft::NodeId,
    /// Which state a read sees that does not name one itself.
    pub read_mode: ReadMode,
    /// When this node answers look-ups.
    pub readiness: ReadinessOptions,
    /// Size of the route cache, bytes.
    pub route_cache_bytes: usize,
    /// What the connections of clients may hold together.
    pub budgets: BudgetLimits,
    /// Limits of one registration.
    pub registration: RegistrationLimits,
    /// Deadline of a write, and of a read that has to wait.
    pub request_deadline: Duration,
    /// Deadline of a registration: brokers wait 24 s.
    pub registration_deadline: Duration,
}

impl ServiceOptions {
    /// The defaults.
    #[must_use]
    pub fn new(node_id: raft::NodeId) -> Self {
        Self {
            node_id,
            read_mode: ReadMode::Local,
            readiness: ReadinessOptions::default(),
            route_cache_bytes: 64 << 20,
            budgets: BudgetLimits::default(),
            registration: RegistrationLimits::default(),
            request_deadline: Duration::from_millis(2_500),
            registration_deadline: Duration::from_secs(15),
        }
    }
}
