//! Bodies of answers, written from the tables exactly as Java writes them, lists in name order.

use super::GetRoute;
use bytes::Bytes;
use storage::RouteInfo;
use storage::command::{DataVersion, Name};

/// How a route is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteStyle {
    /// Standard JSON, for clients since 4.9.4: integer keys quoted, text beyond ASCII escaped.
    Standard,
    /// The old style: integer keys unquoted, UTF-8.
    Old,
}

/// GET_ROUTEINFO_BY_TOPIC; `None` when the topic is unknown.
#[must_use]
pub fn route(_table: &RouteInfo, _ask: &GetRoute<'_>) -> Option<Bytes> {
    None
}

/// GET_BROKER_CLUSTER_INFO.
#[must_use]
pub fn cluster_info(_table: &RouteInfo) -> Bytes {
    Bytes::new()
}

/// GET_BROKER_MEMBER_GROUP; the cluster is only echoed.
#[must_use]
pub fn member_group(_table: &RouteInfo, _cluster: Option<&str>, _broker: Option<&str>) -> Bytes {
    Bytes::new()
}

/// A list of topics, in the given order; `broker_address` for the list of system topics.
pub fn topic_list<'a>(_topics: impl IntoIterator<Item = &'a str>, _broker_address: Option<&str>) -> Bytes {
    Bytes::new()
}

/// Entries of a KV namespace, null values left out: GET_KVLIST_BY_NAMESPACE, and the body of a registration's answer.
pub fn kv_table<'a>(_entries: impl IntoIterator<Item = (&'a Name, &'a Option<Name>)>) -> Bytes {
    Bytes::new()
}

/// QUERY_DATA_VERSION.
#[must_use]
pub fn data_version(_version: DataVersion) -> Bytes {
    Bytes::new()
}
