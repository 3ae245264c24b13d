//! The request codes that a nameserver carries out.

use crate::wire::codes::request as code;

/// All of them.
pub const CODES: &[i32] = &[
    code::PUT_KV_CONFIG,
    code::GET_KV_CONFIG,
    code::DELETE_KV_CONFIG,
    code::REGISTER_BROKER,
    code::UNREGISTER_BROKER,
    code::GET_ROUTEINFO_BY_TOPIC,
    code::GET_BROKER_CLUSTER_INFO,
    code::WIPE_WRITE_PERM_OF_BROKER,
    code::GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    code::DELETE_TOPIC_IN_NAMESRV,
    code::REGISTER_TOPIC_IN_NAMESRV,
    code::GET_KVLIST_BY_NAMESPACE,
    code::GET_TOPICS_BY_CLUSTER,
    code::GET_SYSTEM_TOPIC_LIST_FROM_NS,
    code::GET_UNIT_TOPIC_LIST,
    code::GET_HAS_UNIT_SUB_TOPIC_LIST,
    code::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    code::UPDATE_NAMESRV_CONFIG,
    code::GET_NAMESRV_CONFIG,
    code::QUERY_DATA_VERSION,
    code::ADD_WRITE_PERM_OF_BROKER,
    code::GET_BROKER_MEMBER_GROUP,
    code::BROKER_HEARTBEAT,
];

/// Whether only brokers send this request: from the first one on, the server watches the connection for a dead peer.
#[must_use]
pub fn is_from_broker(request_code: i32) -> bool {
    matches!(request_code, code::REGISTER_BROKER | code::BROKER_HEARTBEAT | code::QUERY_DATA_VERSION)
}
