//! Every change of the cluster's state, as data.
//!
//! A [`Command`] is what a node proposes and what each node applies. Stored and sent forms are defined in
//! [`crate::format`]; new variants of [`Change`] go at the end, fields are never reordered.

use crate::Position;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A name or address as RocketMQ writes it: topic, broker name, cluster, `ip:port`. Shared, never changed.
pub type Name = Arc<str>;

/// A change, with its origin.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Command {
    /// For display and the audit ring only; never decides anything.
    pub origin: Origin,
    /// What is to be changed.
    pub change: Change,
}

/// Which node proposed a command, for which peer, and when. Display only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// The node that proposed it.
    pub node: u64,
    /// Address of the peer whose request it was; empty when the node itself decided.
    pub peer: Name,
    /// Wall clock of the proposer, milliseconds since 1970.
    pub unix_ms: u64,
}

/// What can be changed. One variant per kind of mutation; new ones go at the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Change {
    /// REGISTER_BROKER (103).
    RegisterBroker(Box<Registration>),
    /// UNREGISTER_BROKER (104), disconnect and expiry.
    RemoveBrokers(RemoveBrokers),
    /// REGISTER_TOPIC_IN_NAMESRV (217).
    RegisterTopic(RegisterTopic),
    /// DELETE_TOPIC_IN_NAMESRV (216).
    DeleteTopic(DeleteTopic),
    /// WIPE_WRITE_PERM_OF_BROKER (205) and ADD_WRITE_PERM_OF_BROKER (327).
    SetWritePermission(SetWritePermission),
    /// PUT_KV_CONFIG (100).
    PutKv(PutKv),
    /// DELETE_KV_CONFIG (102).
    DeleteKv(DeleteKv),
    /// UPDATE_NAMESRV_CONFIG (318).
    UpdateSettings(UpdateSettings),
    /// The mass eviction guard began or ended: every later leader goes on with it.
    SetEvictionGuard(SetEvictionGuard),
}

impl Change {
    /// Roughly how many parts it has: what encoding it and comparing it with the tables takes.
    #[must_use]
    pub fn parts(&self) -> usize {
        match self {
            Self::RegisterBroker(registration) => {
                let infos = registration.static_infos.iter();
                let ids = infos.map(|(_, info)| 1 + info.current_ids.as_ref().map_or(0, BTreeMap::len));
                registration.topics.len() + ids.sum::<usize>()
            }
            Self::RemoveBrokers(removal) => removal.brokers.len(),
            Self::RegisterTopic(registration) => registration.queues.len(),
            _ => 1,
        }
    }
}

/// A broker's version of its topic table. Compared for equality only, but for `state_version`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DataVersion {
    /// Raised by a controller when the group's master changes.
    pub state_version: i64,
    /// Milliseconds since 1970 on the broker's clock: an identity, not an order.
    pub timestamp: i64,
    /// Raised with each change of the table.
    pub counter: i64,
}

/// A registration of a broker, whole or as the difference to the applied table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Registration {
    /// Cluster that the broker belongs to.
    pub cluster: Name,
    /// Broker name: shared by a master and its slaves.
    pub broker: Name,
    /// Broker id: 0 is the master. Negative ids exist (DLedger candidates).
    pub id: i64,
    /// `ip:port` that clients connect to.
    pub address: Name,
    /// `ip:port` that slaves replicate from; as sent, `None` when the header field is absent.
    pub ha_address: Option<Name>,
    /// Zone (`__ZONE_NAME`), as sent.
    pub zone: Option<Name>,
    /// Header `enableActingMaster`; `None` for brokers older than that field.
    pub acting_master: Option<bool>,
    /// Header `heartbeatTimeoutMillis`; `None` means the default of 120 s.
    pub heartbeat_timeout_ms: Option<i64>,
    /// Version of the topic table.
    pub data_version: DataVersion,
    /// `None` keeps what is known, an empty list removes it.
    pub filter_servers: Option<Vec<Name>>,
    /// Topics: all of the body, or those that apply must look at (see `basis`). Sorted by name, no name twice.
    pub topics: Vec<TopicConfig>,
    /// Whether `topics` is everything or a difference.
    pub basis: Basis,
    /// Static-topic infos of the body (5.x `topicQueueMappingInfoMap`): topic → info. Sorted by topic.
    pub static_infos: Vec<(Name, StaticTopicInfo)>,
}

impl Registration {
    /// The whole registration of a master without topics and without any optional part.
    #[must_use]
    pub fn of_master(cluster: Name, broker: Name, address: Name) -> Self {
        Self {
            cluster,
            broker,
            id: 0,
            address,
            ha_address: None,
            zone: None,
            acting_master: None,
            heartbeat_timeout_ms: None,
            data_version: DataVersion::default(),
            filter_servers: None,
            topics: Vec::new(),
            basis: Basis::Whole,
            static_infos: Vec::new(),
        }
    }
}

/// What `Registration::topics` holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Basis {
    /// Every topic of the body.
    Whole,
    /// The topics of the body whose queue data differ from, or are missing in, the table at a group version.
    Difference {
        /// The group version that the difference was computed against. Apply answers `Conflict` on another.
        group_version: Position,
        /// How many topics the body had.
        topic_count: u32,
        /// Topics of this broker name in the table that the body lacks, sorted: removed only with
        /// `deleteTopicWithBrokerRegistration`.
        absent: Vec<Name>,
    },
}

/// The part of a broker's topic configuration that a nameserver keeps.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TopicConfig {
    /// Topic name; not checked in any way, may be empty.
    pub topic: Name,
    /// Queues on this broker.
    pub queues: QueueConfig,
}

/// Queues of one topic on one broker name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QueueConfig {
    /// `readQueueNums`.
    pub read: i32,
    /// `writeQueueNums`.
    pub write: i32,
    /// Bit 1 (2) write, bit 2 (4) read.
    pub perm: i32,
    /// `topicSysFlag`: bit 0 unit, bit 1 unit subscription.
    pub sys_flag: i32,
}

/// Broker id of a master.
pub const MASTER_ID: i64 = 0;
/// Timeout of a broker that names none, milliseconds.
pub const HEARTBEAT_TIMEOUT_DEFAULT_MS: u64 = 120_000;
/// Write permission of a queue.
pub const PERM_WRITE: i32 = 1 << 1;
/// Read permission of a queue.
pub const PERM_READ: i32 = 1 << 2;

/// Mapping of a static topic's logical queues on one broker (5.x).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StaticTopicInfo {
    /// `topic`, as sent.
    pub topic: Option<Name>,
    /// `bname`: the broker name under which the info is kept.
    pub broker: Option<Name>,
    /// `totalQueues`.
    pub total_queues: i32,
    /// `epoch`.
    pub epoch: i64,
    /// `scope`.
    pub scope: Option<Name>,
    /// `dirty`.
    pub dirty: bool,
    /// `currIdMap`: logical → physical queue id.
    pub current_ids: Option<BTreeMap<i32, i32>>,
}

/// Removes several brokers in one entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RemoveBrokers {
    /// Which, and why.
    pub brokers: Vec<Removal>,
    /// The term in which expiry or disconnect was decided; apply ignores the command in an entry of another
    /// term. `None` for removals that a request asks for.
    pub decided_in_term: Option<u64>,
}

/// One broker to remove.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Removal {
    /// Cluster that the request named; a wrong one does not matter.
    pub cluster: Name,
    /// Broker name.
    pub broker: Name,
    /// Address.
    pub address: Name,
    /// Only this incarnation is removed. `None` until the leader has filled it in (removals that a request asks for).
    pub incarnation: Option<Position>,
    /// Why.
    pub cause: Cause,
}

/// Why a broker was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Cause {
    /// UNREGISTER_BROKER.
    Asked,
    /// Its last connection was closed by the peer.
    Disconnected,
    /// Without a heartbeat for longer than its timeout.
    Expired {
        /// Time since its last heartbeat, milliseconds.
        idle_ms: u64,
    },
}

/// Registers one topic on brokers that are known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RegisterTopic {
    /// Topic.
    pub topic: Name,
    /// Queues per broker name, in the order of the request.
    pub queues: Vec<(Name, QueueConfig)>,
}

/// Deletes a topic everywhere, or on the brokers of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeleteTopic {
    /// Topic.
    pub topic: Name,
    /// Only on brokers of this cluster.
    pub cluster: Option<Name>,
}

/// Wipes or adds the write permission of all topics of a broker name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SetWritePermission {
    /// Broker name.
    pub broker: Name,
    /// `true`: perm becomes 6. `false`: perm loses the write bit.
    pub writable: bool,
}

/// Sets a KV entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PutKv {
    /// Namespace.
    pub namespace: Name,
    /// Key.
    pub key: Name,
    /// Value; a null is kept, reads as not found and is left out of lists.
    pub value: Option<Name>,
}

/// Deletes a KV entry; an emptied namespace stays known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeleteKv {
    /// Namespace.
    pub namespace: Name,
    /// Key.
    pub key: Name,
}

/// Changes replicated settings, all of them or none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UpdateSettings {
    /// Java property names and texts, as sent, black-listed and node settings already taken out.
    pub properties: Vec<(Name, Name)>,
}

/// Switches the mass eviction guard of the whole cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SetEvictionGuard {
    /// Whether it holds removals back from now on.
    pub active: bool,
}
