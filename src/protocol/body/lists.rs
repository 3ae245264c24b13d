//! Lists and small tables.

use super::writer::Writer;
use crate::protocol::JsonStyle;
use bytes::Bytes;
use storage::command::{DataVersion, Name};

/// A list of topics, in the given order. The list of system topics has a `broker_address` too.
pub fn topic_list<'a>(topics: impl IntoIterator<Item = &'a str>, broker_address: Option<&str>) -> Bytes {
    let mut writer = Writer::new(JsonStyle::Old, 1024);
    writer.object(|w| {
        if let Some(address) = broker_address {
            w.key("brokerAddr").text(address);
        }
        w.key("topicList").list(topics, Writer::text);
    });
    writer.finish()
}

/// Entries of a KV namespace without null values: the body of GET_KVLIST_BY_NAMESPACE, and of the response to a
/// registration.
pub fn kv_table<'a>(entries: impl IntoIterator<Item = (&'a Name, &'a Option<Name>)>) -> Bytes {
    let mut writer = Writer::new(JsonStyle::Old, 256);
    writer.object(|w| {
        w.key("table").object(|w| {
            for (key, value) in entries {
                if let Some(value) = value {
                    w.text_key(key).text(value);
                }
            }
        });
    });
    writer.finish()
}

/// QUERY_DATA_VERSION.
#[must_use]
pub fn data_version(version: DataVersion) -> Bytes {
    let mut writer = Writer::new(JsonStyle::Old, 96);
    writer.object(|w| {
        w.key("counter").int(version.counter);
        w.key("stateVersion").int(version.state_version);
        w.key("timestamp").int(version.timestamp);
    });
    writer.finish()
}
