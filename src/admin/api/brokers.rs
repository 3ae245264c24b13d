//! The registered brokers.

use serde::{Deserialize, Serialize};
use storage::RouteInfo;
use storage::route_info::BrokerKey;

/// `GET /api/v1/brokers`: a registered broker process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BrokerView {
    /// Cluster.
    pub cluster: String,
    /// Broker name.
    pub broker: String,
    /// Broker id.
    pub id: i64,
    /// `ip:port`.
    pub address: String,
    /// HA address.
    pub ha_address: Option<String>,
    /// Idle time: milliseconds since its last heartbeat at any node, if this node knows it.
    pub idle_ms: Option<u64>,
    /// Idle time after which it expires, milliseconds.
    pub timeout_ms: u64,
    /// Topics of its broker name.
    pub topics: usize,
}

/// All registered brokers, by cluster and address. `idle_ms` returns the idle time of a broker, milliseconds.
#[must_use]
pub fn brokers(table: &RouteInfo, idle_ms: impl Fn(&BrokerKey) -> Option<u64>) -> Vec<BrokerView> {
    let view = |(key, live): (&BrokerKey, &storage::route_info::BrokerLiveInfo)| BrokerView {
        cluster: key.cluster.to_string(),
        broker: live.broker.to_string(),
        id: live.id,
        address: key.address.to_string(),
        ha_address: live.ha_address.as_ref().map(ToString::to_string),
        idle_ms: idle_ms(key),
        timeout_ms: live.timeout_ms,
        topics: table.topics_of(&live.broker).map_or(0, |topics| topics.len()),
    };
    table.live_brokers().map(view).collect()
}
