//! Request codes and results, by RocketMQ's numbers.

/// Request codes.
pub mod request {
    /// Sets a KV entry.
    pub const PUT_KV_CONFIG: i32 = 100;
    /// Gets a KV entry.
    pub const GET_KV_CONFIG: i32 = 101;
    /// Deletes a KV entry.
    pub const DELETE_KV_CONFIG: i32 = 102;
    /// Registers a broker with its topics.
    pub const REGISTER_BROKER: i32 = 103;
    /// Removes a broker.
    pub const UNREGISTER_BROKER: i32 = 104;
    /// Looks up the route of a topic.
    pub const GET_ROUTEINFO_BY_TOPIC: i32 = 105;
    /// Lists all brokers and clusters.
    pub const GET_BROKER_CLUSTER_INFO: i32 = 106;
    /// Takes write permission from all topics of a broker name.
    pub const WIPE_WRITE_PERM_OF_BROKER: i32 = 205;
    /// Lists all topics.
    pub const GET_ALL_TOPIC_LIST_FROM_NAMESERVER: i32 = 206;
    /// Deletes a topic.
    pub const DELETE_TOPIC_IN_NAMESRV: i32 = 216;
    /// Registers one topic.
    pub const REGISTER_TOPIC_IN_NAMESRV: i32 = 217;
    /// Lists the KV entries of a namespace.
    pub const GET_KVLIST_BY_NAMESPACE: i32 = 219;
    /// Lists the topics of a cluster.
    pub const GET_TOPICS_BY_CLUSTER: i32 = 224;
    /// Lists the names of clusters and brokers, which are topics too.
    pub const GET_SYSTEM_TOPIC_LIST_FROM_NS: i32 = 304;
    /// Lists the topics of units.
    pub const GET_UNIT_TOPIC_LIST: i32 = 311;
    /// Lists the topics with unit subscriptions.
    pub const GET_HAS_UNIT_SUB_TOPIC_LIST: i32 = 312;
    /// Lists the topics with unit subscriptions that are not of a unit.
    pub const GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: i32 = 313;
    /// Changes settings.
    pub const UPDATE_NAMESRV_CONFIG: i32 = 318;
    /// Lists all settings.
    pub const GET_NAMESRV_CONFIG: i32 = 319;
    /// Asks whether the table has the topics of a broker.
    pub const QUERY_DATA_VERSION: i32 = 322;
    /// Gives write permission to all topics of a broker name.
    pub const ADD_WRITE_PERM_OF_BROKER: i32 = 327;
    /// Gets ids and addresses of a broker name.
    pub const GET_BROKER_MEMBER_GROUP: i32 = 901;
    /// A heartbeat of a broker.
    pub const BROKER_HEARTBEAT: i32 = 904;
    /// Sent to brokers: the lowest id of their name changed.
    pub const NOTIFY_MIN_BROKER_ID_CHANGE: i32 = 905;
}

/// Result codes.
pub mod result {
    /// Success.
    pub const SUCCESS: i32 = 0;
    /// Refused or failed; the remark says why.
    pub const SYSTEM_ERROR: i32 = 1;
    /// Overloaded: a limit is reached.
    pub const SYSTEM_BUSY: i32 = 2;
    /// Unknown request code.
    pub const REQUEST_CODE_NOT_SUPPORTED: i32 = 3;
    /// Not allowed.
    pub const NO_PERMISSION: i32 = 16;
    /// No such topic.
    pub const TOPIC_NOT_EXIST: i32 = 17;
    /// No such entry.
    pub const QUERY_NOT_FOUND: i32 = 22;
}
