//! The limit of a broker's identity. A node reports the brokers that it hears to the leader: without this limit one
//! client could fill the reports.

use storage::limits::BROKER_KEY_BYTES_MAX;
use storage::route_info::BrokerKey;

/// Whether cluster name and address are over the limit.
pub(super) fn is_too_long(broker: &BrokerKey) -> bool {
    broker.name_bytes() > BROKER_KEY_BYTES_MAX
}
