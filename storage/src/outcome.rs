//! The outcome of a command, and the events of applying it.

use crate::Position;
use crate::command::{Cause, Name, QueueConfig};
use serde::{Deserialize, Serialize};

/// The outcome of applying a command. Sent back to the node that proposed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Done, or nothing was to do. For counts see the other variants.
    Done {
        /// Whether any table changed.
        changed: bool,
    },
    /// A registration lost against a higher `stateVersion` at its id: success without values.
    Outdated,
    /// A first registration with exactly one topic: `register broker failed`.
    SingleTopic,
    /// A difference was computed against another group version than the table's.
    Conflict {
        /// The table's group version ([`crate::RouteInfo::group_version`]).
        group_version: Position,
    },
    /// REGISTER_TOPIC named a broker name that is not registered; nothing was changed.
    UnknownBroker {
        /// The first such name.
        broker: Name,
    },
    /// WIPE / ADD write permission.
    Topics {
        /// Topics of that broker name, changed or not.
        count: u32,
    },
    /// RemoveBrokers.
    Removed {
        /// How many brokers went.
        count: u32,
    },
}

impl Outcome {
    /// Whether the command was refused and changed nothing.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Outdated | Self::SingleTopic | Self::Conflict { .. } | Self::UnknownBroker { .. }
        )
    }
}

/// Something that apply did. Liveness, logs, notices and metrics get it after the tables are visible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A broker's registration was created or changed.
    BrokerRegistered {
        /// Cluster.
        cluster: Name,
        /// Broker name.
        broker: Name,
        /// Broker id.
        id: i64,
        /// Address.
        address: Name,
        /// HA address.
        ha_address: Option<Name>,
        /// Whether this (cluster, address) was not live before.
        first: bool,
    },
    /// A broker left the tables.
    BrokerRemoved {
        /// Cluster of its live entry.
        cluster: Name,
        /// Broker name.
        broker: Name,
        /// Broker id.
        id: i64,
        /// Address.
        address: Name,
        /// The incarnation that went.
        incarnation: Position,
        /// Why.
        cause: RemovedBy,
    },
    /// The last id of a broker name went, and the name with it.
    NameGone {
        /// Cluster.
        cluster: Name,
        /// Broker name.
        broker: Name,
    },
    /// The last broker name of a cluster went.
    ClusterGone {
        /// Cluster.
        cluster: Name,
    },
    /// A topic appeared on a broker name.
    TopicNew {
        /// Topic.
        topic: Name,
        /// Broker name.
        broker: Name,
        /// Its queues.
        queues: QueueConfig,
        /// Whether an operator had deleted it before and the broker brought it back.
        resurrected: bool,
    },
    /// A topic's queues on a broker name changed.
    TopicChanged {
        /// Topic.
        topic: Name,
        /// Broker name.
        broker: Name,
        /// Before.
        old: QueueConfig,
        /// After.
        new: QueueConfig,
    },
    /// A topic left a broker name (or all, with `broker` `None`).
    TopicGone {
        /// Topic.
        topic: Name,
        /// Broker name.
        broker: Option<Name>,
    },
    /// Write permission of all topics of a broker name changed.
    PermissionChanged {
        /// Broker name.
        broker: Name,
        /// Whether its queues are writable now.
        writable: bool,
        /// Why.
        why: PermissionCause,
        /// How many topics changed.
        topics: u32,
    },
    /// The lowest id of a broker name changed: NOTIFY_MIN_BROKER_ID_CHANGE is due.
    MinBrokerIdChanged {
        /// Broker name.
        broker: Name,
        /// The lowest id now.
        min_id: i64,
        /// Its address.
        min_address: Name,
        /// A lower id registered: its HA address goes into the notice.
        ha_address: Option<Name>,
        /// The lowest id left: its address goes into the notice.
        offline_address: Option<Name>,
        /// Addresses of the brokers that get the notice.
        targets: Vec<Name>,
    },
    /// Two brokers claim one place. Counted, and logged once per change.
    Conflict {
        /// What they claim.
        kind: ConflictKind,
        /// Broker name.
        broker: Name,
        /// The id claimed.
        id: i64,
        /// The broker that had it: address (and cluster).
        holder: Name,
        /// The broker that claims it.
        claimant: Name,
    },
    /// A KV entry was put or deleted.
    KvChanged {
        /// Namespace.
        namespace: Name,
        /// Key.
        key: Name,
        /// Whether it was deleted.
        deleted: bool,
    },
    /// Settings changed.
    SettingsChanged {
        /// Name, old text, new text.
        changes: Vec<(Name, Name, Name)>,
    },
    /// The mass eviction guard began or ended.
    EvictionGuardChanged {
        /// Whether it holds removals back now.
        active: bool,
    },
}

impl Event {
    /// Visits every name and text of the event.
    pub(crate) fn for_each_name(&mut self, visit: &mut dyn FnMut(&mut Name)) {
        let (names, more): (Vec<&mut Name>, Option<&mut Name>) = match self {
            Self::BrokerRegistered { cluster, broker, address, ha_address, .. } => {
                (vec![cluster, broker, address], ha_address.as_mut())
            }
            Self::BrokerRemoved { cluster, broker, address, .. } => (vec![cluster, broker, address], None),
            Self::NameGone { cluster, broker } => (vec![cluster, broker], None),
            Self::ClusterGone { cluster } => (vec![cluster], None),
            Self::TopicNew { topic, broker, .. } | Self::TopicChanged { topic, broker, .. } => {
                (vec![topic, broker], None)
            }
            Self::TopicGone { topic, broker } => (vec![topic], broker.as_mut()),
            Self::PermissionChanged { broker, .. } => (vec![broker], None),
            Self::MinBrokerIdChanged {
                broker, min_address, ha_address, offline_address, targets, ..
            } => {
                let addresses = [ha_address.as_mut(), offline_address.as_mut()].into_iter().flatten();
                ([broker, min_address].into_iter().chain(addresses).chain(targets).collect(), None)
            }
            Self::Conflict { broker, holder, claimant, .. } => (vec![broker, holder, claimant], None),
            Self::KvChanged { namespace, key, .. } => (vec![namespace, key], None),
            Self::SettingsChanged { changes } => {
                (changes.iter_mut().flat_map(|(name, old, new)| [name, old, new]).collect(), None)
            }
            Self::EvictionGuardChanged { .. } => (Vec::new(), None),
        };
        names.into_iter().chain(more).for_each(visit);
    }
}

/// Why a broker left the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RemovedBy {
    /// A removal.
    Removal(Cause),
    /// Its address registered under another broker name, id or cluster.
    Moved,
    /// Another address took its id over.
    Replaced,
}

/// Why a permission changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PermissionCause {
    /// WIPE / ADD write permission.
    Asked,
    /// The master left a group with acting master.
    MasterGone,
}

/// What two brokers claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConflictKind {
    /// Two live addresses under one name and id.
    Address,
    /// One broker name in two clusters.
    Cluster,
    /// A registration lost against a higher `stateVersion`.
    StateVersion,
}
