//! The settings of a node, each in one row. Reading the file, `serve -p`, code 319, `serve --help` and
//! `docs/settings.md` come from here; the defaults are those of the options that a row names.

use super::setting::{Group, Setting, Slot};

const DAY_S: u64 = 86_400;
const DAY_MS: u64 = DAY_S * 1000;
/// The most that the kernel takes for keep-alive, seconds.
const KEEP_ALIVE_MAX_S: u64 = 32_767;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// All settings of a node, in the order in which they are shown.
pub(crate) const SETTINGS: &[Setting] = &[
    Setting::text(
        Group::Node,
        "nodeId",
        |c| Slot::NodeId(&mut c.node.node_id),
        "a number from 1",
        "id of this node; needed when members names several",
    )
    .with_flag("--node-id", "RAFT_NAMESRV_NODE_ID"),
    Setting::text(
        Group::Node,
        "dataDirectory",
        |c| Slot::Path(&mut c.node.data),
        "a directory",
        "where log, snapshots and the identity of the node lie; made when it is missing",
    )
    .with_flag("--data", "RAFT_NAMESRV_DATA"),
    Setting::text(
        Group::Node,
        "bindAddress",
        |c| Slot::Ip(&mut c.listen),
        "an IP address, or a name of this host",
        "address for brokers and clients; 0.0.0.0: all of this host",
    )
    .with_flag("--listen", "RAFT_NAMESRV_LISTEN")
    .shown_by_code_319(),
    Setting::text(
        Group::Node,
        "listenPort",
        |c| Slot::Port(&mut c.listen),
        "a port (0: any free one)",
        "port for brokers and clients, the RocketMQ port",
    )
    .with_flag("--listen", "RAFT_NAMESRV_LISTEN")
    .shown_by_code_319(),
    Setting::text(
        Group::Node,
        "peerListen",
        |c| Slot::Address(&mut c.peer_listen),
        "HOST:PORT",
        "for the other nodes; by default the RocketMQ port + 100",
    )
    .with_flag("--peer-listen", "RAFT_NAMESRV_PEER_LISTEN"),
    Setting::text(
        Group::Node,
        "httpListen",
        |c| Slot::Address(&mut c.http_listen),
        "HOST:PORT",
        "for operators: health, metrics, JSON; by default the RocketMQ port + 200",
    )
    .with_flag("--http-listen", "RAFT_NAMESRV_HTTP_LISTEN"),
    Setting::text(
        Group::Node,
        "members",
        |c| Slot::Members(&mut c.node.members),
        "1=HOST:PEERPORT,2=…",
        "members of a new cluster, the same list at each node; empty: this node alone",
    )
    .with_flag("--members", "RAFT_NAMESRV_MEMBERS"),
    Setting::text(
        Group::Node,
        "serializeType",
        |c| Slot::Serialization(&mut c.node.server.serialization),
        "JSON or ROCKETMQ",
        "header of the answers: JSON text, or RocketMQ's binary one",
    )
    .with_flag("--serialize-type", "ROCKETMQ_SERIALIZE_TYPE"),
    Setting::text(
        Group::Node,
        "configBlackList",
        |c| Slot::Text(&mut c.black_list),
        "KEY;KEY;…",
        "keys that code 318 may not change, beside Java's own",
    ),
    Setting::number(
        Group::DeadHosts,
        "brokerKeepAliveIdleSeconds",
        |c| Slot::Seconds(&mut c.node.server.dead_peer.keepalive_idle),
        (0, KEEP_ALIVE_MAX_S),
        "seconds",
        "idle time of a broker's connection after which the kernel probes it; 0: no probes",
    ),
    Setting::number(
        Group::DeadHosts,
        "brokerKeepAliveIntervalSeconds",
        |c| Slot::Seconds(&mut c.node.server.dead_peer.keepalive_interval),
        (1, KEEP_ALIVE_MAX_S),
        "seconds",
        "time between two probes",
    ),
    Setting::number(
        Group::DeadHosts,
        "brokerTcpUserTimeoutMillis",
        |c| Slot::Millis(&mut c.node.server.dead_peer.user_timeout),
        (0, DAY_MS),
        "ms",
        "bytes or probes that stay unacknowledged this long end the connection; 0: the kernel decides",
    ),
    Setting::switch(
        Group::Guard,
        "massEvictionGuard",
        |c| Slot::Switch(&mut c.node.liveness.guard),
        "hold removals back when many brokers would go at once",
    ),
    Setting::number(
        Group::Guard,
        "massEvictionSharePercent",
        |c| Slot::Percent(&mut c.node.liveness.guard_share_percent),
        (1, 100),
        "%",
        "share of the brokers that may go within 10 s; the guard keeps the rest for a while",
    ),
    Setting::number(
        Group::Limits,
        "serverChannelMaxIdleTimeSeconds",
        |c| Slot::Seconds(&mut c.node.server.limits.idle),
        (0, DAY_S),
        "seconds",
        "a connection without a byte for this long is closed",
    )
    .shown_by_code_319(),
    Setting::number(
        Group::Limits,
        "connectionsMax",
        |c| Slot::Count(&mut c.node.server.limits.connections),
        (1, 10_000_000),
        "connections",
        "one more is closed at once; fewer, with a warning at the start, when the process may open too few files",
    ),
    Setting::number(
        Group::Limits,
        "requestsInFlightMax",
        |c| Slot::Count(&mut c.node.server.limits.in_flight),
        (1, 10_000_000),
        "requests",
        "writes and linearizable reads under way in all; one more is answered SYSTEM_BUSY",
    ),
    Setting::number(
        Group::Limits,
        "requestsInFlightPerConnectionMax",
        |c| Slot::Count(&mut c.node.server.limits.in_flight_per_connection),
        (1, 1_000_000),
        "requests",
        "the same for one connection",
    ),
    Setting::number(
        Group::Limits,
        "requestsInFlightBytesMax",
        |c| Slot::Count(&mut c.node.server.limits.in_flight_bytes),
        (MIB, 64 * GIB),
        "bytes",
        "bodies of such requests in all; beyond, SYSTEM_BUSY",
    ),
    Setting::number(
        Group::Limits,
        "frameBytesMax",
        |c| Slot::Count(&mut c.node.server.limits.frame_bytes),
        (64 * KIB, crate::wire::FRAME_MAX_BYTES as u64),
        "bytes",
        "a longer request closes its connection",
    ),
    Setting::number(
        Group::Limits,
        "registrationBytesMax",
        |c| Slot::Number(&mut c.node.service.registration.inflated_bytes),
        (MIB, 64 * GIB),
        "bytes",
        "a registration that is larger once it is inflated is refused",
    ),
    Setting::number(
        Group::Limits,
        "registrationTopicsMax",
        |c| Slot::Count(&mut c.node.service.registration.topics),
        (1, 10_000_000),
        "topics",
        "a registration with more topics, or more static topics, is refused",
    ),
    Setting::number(
        Group::Limits,
        "writeBufferBytesMax",
        |c| Slot::Count(&mut c.node.server.limits.write_buffer_bytes),
        (64 * KIB, GIB),
        "bytes",
        "answers that a connection has not taken yet; beyond, no more of its requests are read",
    ),
    Setting::number(
        Group::Limits,
        "writeStallMillis",
        |c| Slot::Millis(&mut c.node.server.limits.write_stall),
        (1, DAY_MS),
        "ms",
        "such a connection is closed when it takes nothing for this long",
    ),
    Setting::number(
        Group::Limits,
        "sessionsMax",
        |c| Slot::Count(&mut c.node.liveness.sessions_max),
        (0, 100_000_000),
        "sessions",
        "pairs of a connection and a broker that are tracked, and 8 MiB of their names; a broker beyond gets SYSTEM_BUSY",
    ),
    Setting::number(
        Group::Limits,
        "routeCacheBytesMax",
        |c| Slot::Count(&mut c.node.service.route_cache_bytes),
        (0, 16 * GIB),
        "bytes",
        "encoded routes kept in memory",
    ),
    Setting::text(
        Group::Reads,
        "readMode",
        |c| Slot::ReadMode(&mut c.node.service.read_mode),
        "local or linearizable",
        "local: from this node's memory; linearizable: after a question to the leader",
    ),
    Setting::number(
        Group::Reads,
        "recoveryWaitSeconds",
        |c| Slot::Seconds(&mut c.recovery_wait),
        (0, DAY_S),
        "seconds",
        "a restarted node that hears of no leader waits this long, then serves what it has",
    ),
    Setting::switch(
        Group::Reads,
        "serveAfterRecoveryWait",
        |c| Slot::Switch(&mut c.serve_after_recovery_wait),
        "false: such a node waits for a leader, however long",
    ),
    Setting::number(
        Group::Reads,
        "stalenessMaxMillis",
        |c| Slot::OptionalMillis(&mut c.node.service.readiness.staleness_max),
        (0, DAY_MS),
        "ms",
        "a node without contact to a leader for this long stops serving; 0: it goes on",
    ),
    Setting::number(
        Group::Log,
        "snapshotLogBytes",
        |c| Slot::Number(&mut c.node.snapshots.log_bytes),
        (MIB, 64 * GIB),
        "bytes",
        "a snapshot is made after so much log, or by one of the next two, whatever comes first",
    ),
    Setting::number(
        Group::Log,
        "snapshotEntries",
        |c| Slot::Number(&mut c.node.snapshots.entries),
        (1, u64::MAX),
        "entries",
        "… after so many log entries",
    ),
    Setting::number(
        Group::Log,
        "snapshotAgeSeconds",
        |c| Slot::Seconds(&mut c.node.snapshots.age),
        (1, 365 * DAY_S),
        "seconds",
        "… after this time, when anything changed",
    ),
    Setting::number(
        Group::Log,
        "logBytesMax",
        |c| Slot::Number(&mut c.node.snapshots.log_bytes_max),
        (MIB, 1024 * GIB),
        "bytes",
        "log kept for a member that lags behind; one further behind gets a snapshot",
    ),
    Setting::number(
        Group::Log,
        "recentLogBytesMax",
        |c| Slot::Count(&mut c.node.recent_log_bytes),
        (0, 64 * GIB),
        "bytes",
        "newest log entries kept in memory",
    ),
    Setting::number(
        Group::Log,
        "batchCommandsMax",
        |c| Slot::Count(&mut c.node.batch_commands_max),
        (1, 65_536),
        "commands",
        "most commands in one log entry",
    ),
    Setting::text(
        Group::Peers,
        "peerSecretFile",
        |c| Slot::Text(&mut c.secret_file),
        "a file",
        "a file with the secret that all nodes share; empty: none",
    ),
    Setting::number(
        Group::Peers,
        "heartbeatIntervalMillis",
        |c| Slot::Number(&mut c.node.timing.heartbeat_ms),
        (10, 60_000),
        "ms",
        "time between two heartbeats of the leader",
    ),
    Setting::number(
        Group::Peers,
        "electionTimeoutMinMillis",
        |c| Slot::Number(&mut c.node.timing.election_min_ms),
        (30, 600_000),
        "ms",
        "shortest time without the leader after which a node stands for election; two heartbeats or more",
    ),
    Setting::number(
        Group::Peers,
        "electionTimeoutMaxMillis",
        |c| Slot::Number(&mut c.node.timing.election_max_ms),
        (60, 600_000),
        "ms",
        "longest such time",
    ),
];
