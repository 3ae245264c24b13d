//! The min-broker-id notice: the one request that a nameserver sends to brokers.

use crate::wire::RemotingCommand;
use crate::wire::codes::request::NOTIFY_MIN_BROKER_ID_CHANGE;

/// The notice that the lowest id of a broker name has changed (code 905, oneway). It carries `ha_address` when a lower
/// id registered, and `offline_address` when the broker with the lowest id is gone.
#[must_use]
pub fn min_broker_id_changed(
    opaque: i32,
    min_id: i64,
    min_address: &str,
    ha_address: Option<&str>,
    offline_address: Option<&str>,
) -> RemotingCommand {
    let mut command = RemotingCommand::request(NOTIFY_MIN_BROKER_ID_CHANGE, opaque)
        .oneway()
        .with("minBrokerId", &min_id.to_string())
        .with("minBrokerAddr", min_address);
    for (key, value) in [("haBrokerAddr", ha_address), ("offlineBrokerAddr", offline_address)] {
        if let Some(value) = value {
            command = command.with(key, value);
        }
    }
    command
}
