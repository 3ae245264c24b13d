//! The tables themselves, and how they are read.

use super::topic_changes::TopicChanges;
use crate::command::{DataVersion, MASTER_ID, Name, Origin, QueueConfig, StaticTopicInfo};
use crate::outcome::Event;
use crate::{LogId, Position, Settings};
use imbl::{OrdMap, OrdSet, Vector};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Identity of a broker process: cluster name and address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BrokerKey {
    /// Cluster.
    pub cluster: Name,
    /// `ip:port`.
    pub address: Name,
}

impl BrokerKey {
    /// Bytes of both names.
    #[must_use]
    pub fn name_bytes(&self) -> usize {
        self.cluster.len() + self.address.len()
    }
}

/// A topic's queues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topic {
    /// Position of the last command that changed these queues or this topic's static mappings.
    pub version: Position,
    /// Queues per broker name, in name order, no name twice.
    pub queues: Arc<[(Name, QueueConfig)]>,
}

impl Topic {
    /// Queues on one broker name.
    #[must_use]
    pub fn queue(&self, broker: &str) -> Option<QueueConfig> {
        let found = self.queues.binary_search_by(|(name, _)| (**name).cmp(broker)).ok()?;
        self.queues.get(found).map(|(_, queue)| *queue)
    }
}

/// A broker name: a master and its slaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerData {
    /// Cluster of the first registration of the name.
    pub cluster: Name,
    /// Zone of the last registration.
    pub zone: Option<Name>,
    /// `enableActingMaster` of the last registration.
    pub acting_master: bool,
    /// Broker id → address, in id order, no id and no address twice, never empty.
    pub brokers: Arc<[(i64, Name)]>,
    /// Position of the last command that touched anything of this name.
    pub version: Position,
}

impl BrokerData {
    /// The lowest id and its address.
    #[must_use]
    pub fn lowest(&self) -> Option<&(i64, Name)> {
        self.brokers.first()
    }

    /// Address of a broker id.
    #[must_use]
    pub fn address(&self, id: i64) -> Option<&Name> {
        self.brokers.iter().find(|(other, _)| *other == id).map(|(_, address)| address)
    }

    /// Address of the master: the broker with id [`MASTER_ID`].
    #[must_use]
    pub fn master(&self) -> Option<&Name> {
        self.address(MASTER_ID)
    }
}

/// A registered broker process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerLiveInfo {
    /// Broker name.
    pub broker: Name,
    /// Broker id.
    pub id: i64,
    /// Version of its topic table.
    pub data_version: DataVersion,
    /// Idle time after which it expires, milliseconds.
    pub timeout_ms: u64,
    /// HA address.
    pub ha_address: Option<Name>,
    /// Position of the command that created or last changed this registration.
    pub incarnation: Position,
}

/// One line of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Where in the log.
    pub at: Position,
    /// The command's origin.
    pub origin: Origin,
    /// What happened.
    pub event: Event,
}

/// The replicated state. See the module's documentation.
#[derive(Debug, Clone, Default)]
pub struct RouteInfo {
    pub(super) revision: Option<LogId>,
    pub(super) topics: OrdMap<Name, Topic>,
    pub(super) groups: OrdMap<Name, BrokerData>,
    pub(super) clusters: OrdMap<Name, OrdSet<Name>>,
    pub(super) live: OrdMap<BrokerKey, BrokerLiveInfo>,
    pub(super) filter_servers: OrdMap<BrokerKey, Arc<[Name]>>,
    pub(super) static_topics: OrdMap<Name, OrdMap<Name, Arc<StaticTopicInfo>>>,
    pub(super) kv: OrdMap<Name, OrdMap<Name, Option<Name>>>,
    /// Derived: KV namespace → see [`RouteInfo::kv_namespace_bytes`].
    pub(super) kv_bytes: OrdMap<Name, usize>,
    pub(super) settings: Arc<Settings>,
    pub(super) audit: Vector<AuditRecord>,
    /// Derived: bytes of the history.
    pub(super) audit_bytes: usize,
    /// Derived: broker name → its topics.
    pub(super) topics_of: OrdMap<Name, OrdSet<Name>>,
    /// Derived: broker name → what its last registrations changed.
    pub(super) topic_changes: OrdMap<Name, TopicChanges>,
    /// See [`RouteInfo::brokers_version`].
    pub(super) brokers_version: Position,
    /// Position of the last change of a setting that registration reads: a part of every group's version.
    pub(super) settings_version: Position,
    /// Topics that an operator deleted, bounded, with the position of the last deletion.
    pub(super) deleted: OrdMap<Name, Position>,
    /// Position of the command that began the mass eviction guard; `None` while it is not active.
    pub(super) eviction_guard: Option<Position>,
}

impl RouteInfo {
    /// Id of the last applied entry; its index is the *revision*.
    #[must_use]
    pub fn revision(&self) -> Option<LogId> {
        self.revision
    }

    /// Queues of a topic.
    #[must_use]
    pub fn topic(&self, topic: &str) -> Option<&Topic> {
        self.topics.get(topic)
    }

    /// All topics, in name order.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = (&Name, &Topic)> {
        self.topics.iter()
    }

    /// A broker name.
    #[must_use]
    pub fn group(&self, broker: &str) -> Option<&BrokerData> {
        self.groups.get(broker)
    }

    /// All broker names, in order.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (&Name, &BrokerData)> {
        self.groups.iter()
    }

    /// All clusters with their broker names, in order.
    pub fn clusters(&self) -> impl ExactSizeIterator<Item = (&Name, &OrdSet<Name>)> {
        self.clusters.iter()
    }

    /// A registered broker process.
    #[must_use]
    pub fn live(&self, broker: &BrokerKey) -> Option<&BrokerLiveInfo> {
        self.live.get(broker)
    }

    /// All registered broker processes, by cluster and address.
    pub fn live_brokers(&self) -> impl ExactSizeIterator<Item = (&BrokerKey, &BrokerLiveInfo)> {
        self.live.iter()
    }

    /// Filter servers of a broker, in the order it gave them.
    #[must_use]
    pub fn filter_servers(&self, broker: &BrokerKey) -> Option<&Arc<[Name]>> {
        self.filter_servers.get(broker)
    }

    /// Static mappings of a topic: broker name → info.
    #[must_use]
    pub fn static_topic(&self, topic: &str) -> Option<&OrdMap<Name, Arc<StaticTopicInfo>>> {
        self.static_topics.get(topic)
    }

    /// Topics of a broker name.
    #[must_use]
    pub fn topics_of(&self, broker: &str) -> Option<&OrdSet<Name>> {
        self.topics_of.get(broker)
    }

    /// A KV namespace: key → value. An emptied one is still known.
    #[must_use]
    pub fn kv_namespace(&self, namespace: &str) -> Option<&OrdMap<Name, Option<Name>>> {
        self.kv.get(namespace)
    }

    /// A KV value; a null value reads as not found.
    #[must_use]
    pub fn kv(&self, namespace: &str, key: &str) -> Option<&Name> {
        self.kv.get(namespace)?.get(key)?.as_ref()
    }

    /// All KV namespaces, in order.
    pub fn kv_namespaces(&self) -> impl ExactSizeIterator<Item = (&Name, &OrdMap<Name, Option<Name>>)> {
        self.kv.iter()
    }

    /// Position of the command that began the mass eviction guard; `None` while it is not active.
    #[must_use]
    pub fn eviction_guard(&self) -> Option<Position> {
        self.eviction_guard
    }

    /// The replicated settings.
    #[must_use]
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// The history, oldest first, bounded in records and bytes.
    pub fn audit(&self) -> impl ExactSizeIterator<Item = &AuditRecord> + DoubleEndedIterator {
        self.audit.iter()
    }

    /// Position of the last command that changed anything a route shows beside its topic's own queues and static
    /// mappings: broker names' addresses, zones, flags, filter servers, settings, namespace ORDER_TOPIC_CONFIG.
    /// A route encoded at one (`Topic::version`, `brokers_version`) is right while both are the same.
    #[must_use]
    pub fn brokers_version(&self) -> Position {
        self.brokers_version
    }

    /// Version of a broker name: see [`BrokerData::version`]. A change of a setting that registration reads moves
    /// every group's version. A name that is unknown has a version too, which no known name ever has, so a
    /// difference that was made while the name was known never fits after it went.
    #[must_use]
    pub fn group_version(&self, broker: &str) -> Position {
        match self.groups.get(broker) {
            Some(group) => group.version.max(self.settings_version),
            None => Position { index: self.settings_version.index, number: u32::MAX },
        }
    }

    /// Queues of a topic on one broker name.
    #[must_use]
    pub fn queue(&self, topic: &str, broker: &str) -> Option<QueueConfig> {
        self.topics.get(topic)?.queue(broker)
    }

    /// Identity of the broker that has an address under a broker name.
    #[must_use]
    pub fn broker_key(&self, broker: &str, address: &Name) -> Option<BrokerKey> {
        let group = self.groups.get(broker)?;
        let key_in = |cluster: &Name| {
            let key = BrokerKey { cluster: cluster.clone(), address: address.clone() };
            self.live.get(&key).is_some_and(|live| &*live.broker == broker).then_some(key)
        };
        // One name in two clusters is rare, so the group's own cluster nearly always has it.
        key_in(&group.cluster).or_else(|| {
            self.clusters.iter().filter(|(_, names)| names.contains(broker)).find_map(|(c, _)| key_in(c))
        })
    }
}
