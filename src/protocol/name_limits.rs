//! The limits of names and values ([`storage::limits`]) in requests that add something. Requests that take something
//! away have none: what an earlier version has taken can be removed.

use super::{Reply, remarks};
use storage::command::{Name, QueueConfig, Registration, StaticTopicInfo};
use storage::limits::{
    KV_NAME_BYTES_MAX, KV_VALUE_BYTES_MAX, NAME_BYTES_MAX, SETTINGS_TEXT_BYTES_MAX, TOPIC_BYTES_MAX,
};

type Checked = Result<(), Reply>;

/// Checks the names of a registration but for cluster name and address, which are checked before its body is read.
pub(super) fn check_registration(registration: &Registration) -> Checked {
    let Registration { broker, ha_address, zone, filter_servers, topics, static_infos, .. } = registration;
    check("brokerName", broker, NAME_BYTES_MAX)?;
    check_some("haServerAddr", ha_address.as_ref(), NAME_BYTES_MAX)?;
    check_some("zone", zone.as_ref(), NAME_BYTES_MAX)?;
    filter_servers.iter().flatten().try_for_each(|server| check("filter server", server, NAME_BYTES_MAX))?;
    topics.iter().try_for_each(|config| check("topic", &config.topic, TOPIC_BYTES_MAX))?;
    static_infos.iter().try_for_each(|(topic, info)| check_static_info(topic, info))
}

fn check_static_info(topic: &Name, info: &StaticTopicInfo) -> Checked {
    check("static topic", topic, TOPIC_BYTES_MAX)?;
    check_some("topic of a static topic", info.topic.as_ref(), TOPIC_BYTES_MAX)?;
    check_some("bname of a static topic", info.broker.as_ref(), NAME_BYTES_MAX)?;
    check_some("scope of a static topic", info.scope.as_ref(), NAME_BYTES_MAX)
}

/// Checks the names of REGISTER_TOPIC.
pub(super) fn check_topic(topic: Option<&str>, queues: &[(Name, QueueConfig)]) -> Checked {
    check("topic", topic.unwrap_or_default(), TOPIC_BYTES_MAX)?;
    queues.iter().try_for_each(|(broker, _)| check("brokerName", broker, NAME_BYTES_MAX))
}

/// Checks an entry of PUT_KV_CONFIG. No tool can name an empty key, or one with a NUL character, to delete it again.
pub(super) fn check_kv(namespace: &str, key: &str, value: Option<&str>) -> Checked {
    for (what, name) in [("namespace", namespace), ("key", key)] {
        if name.is_empty() || name.contains('\0') {
            return Err(Reply::error(remarks::bad_kv_name(what)));
        }
        check(what, name, KV_NAME_BYTES_MAX)?;
    }
    check("value", value.unwrap_or_default(), KV_VALUE_BYTES_MAX)
}

/// Checks the body of UPDATE_NAMESRV_CONFIG.
pub(super) fn check_settings(body: &[u8]) -> Checked {
    if body.len() <= SETTINGS_TEXT_BYTES_MAX {
        return Ok(());
    }
    Err(Reply::error(remarks::too_many_bytes("the settings", body.len(), SETTINGS_TEXT_BYTES_MAX)))
}

fn check_some(what: &str, text: Option<&Name>, bytes_max: usize) -> Checked {
    text.map_or(Ok(()), |text| check(what, text, bytes_max))
}

fn check(what: &str, text: &str, bytes_max: usize) -> Checked {
    if text.len() <= bytes_max { Ok(()) } else { Err(Reply::error(remarks::too_long(what, text, bytes_max))) }
}

#[cfg(test)]
mod tests;
