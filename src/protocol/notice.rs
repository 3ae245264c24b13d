//! What a nameserver sends by itself.

use crate::wire::RemotingCommand;
use crate::wire::codes::request::NOTIFY_MIN_BROKER_ID_CHANGE;

/// The lowest id of a broker name changed (code 905, oneway). `ha_address` goes along when a lower id registered,
/// `offline_address` when the lowest left.
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
