//! The limit of a broker's identity.

use storage::route_info::BrokerKey;

/// Largest cluster name and address of a broker, bytes together. A node reports the brokers that it hears to the
/// leader: without this limit one client could fill the reports.
pub(super) const BROKER_KEY_BYTES_MAX: usize = 1_024;

/// Whether the identity is over the limit.
pub(super) fn is_too_long(broker: &BrokerKey) -> bool {
    broker.name_bytes() > BROKER_KEY_BYTES_MAX
}
