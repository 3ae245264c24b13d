//! What a read may look at.

use super::NodeSettings;
use crate::route_cache::RouteCache;
use std::time::Duration;
use storage::RouteInfo;

/// Everything that a read depends on beside the request.
#[derive(Debug, Clone, Copy)]
pub struct ReadContext<'a> {
    /// The tables.
    pub table: &'a RouteInfo,
    /// Encoded routes.
    pub routes: &'a RouteCache,
    /// Settings of this node.
    pub node: &'a NodeSettings,
    /// Time since the process started.
    pub uptime: Duration,
    /// For QUERY_DATA_VERSION: the leader reported that the broker is not registered.
    pub broker_not_registered: bool,
}
