//! NOTIFY_MIN_BROKER_ID_CHANGE: which notices are due, and at which node.

use storage::Position;
use storage::command::Name;

/// A notice to send: one request to each of `targets`, side by side, oneway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinBrokerIdNotice {
    /// Entry and place of the change.
    pub at: Position,
    /// Broker name.
    pub broker: Name,
    /// The lowest id now.
    pub min_id: i64,
    /// Its address.
    pub min_address: Name,
    /// HA address of the newcomer, when a lower id registered.
    pub ha_address: Option<Name>,
    /// Address that left, when the lowest id left.
    pub offline_address: Option<Name>,
    /// Addresses of the brokers that must hear it.
    pub targets: Vec<Name>,
}
