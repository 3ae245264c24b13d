//! What a registration would change: the pure half of REGISTER_BROKER, which apply and the edge share.

use super::{BrokerData, BrokerKey, BrokerLiveInfo, RouteInfo};
use crate::Position;
use crate::command::{
    Basis, HEARTBEAT_TIMEOUT_DEFAULT_MS, MASTER_ID, Name, PERM_WRITE, QueueConfig, Registration,
    StaticTopicInfo, TopicConfig,
};
use crate::outcome::{Outcome, RemovedBy};
use std::collections::{BTreeMap, BTreeSet};

/// What a registration would change. Holds nothing that is already so.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    /// Queues to set, in topic order.
    pub(super) put: Vec<(&'a Name, QueueConfig)>,
    /// Topics to take from this broker name, in order.
    pub(super) absent: Vec<Name>,
    /// Static-topic infos to set.
    pub(super) static_infos: Vec<&'a (Name, StaticTopicInfo)>,
    /// A filter server list to set; an empty one removes.
    pub(super) filter_servers: Option<&'a Vec<Name>>,
    /// Number of different topics in the registration.
    pub(super) topic_count: u32,
    /// The group afterwards, and whether that differs beside its version.
    pub(super) group: BrokerData,
    pub(super) group_changes: bool,
    /// The live entry afterwards, and whether that differs beside its incarnation.
    pub(super) live: BrokerLiveInfo,
    pub(super) live_changes: bool,
    /// This (cluster, address) was live under this name before.
    pub(super) known: bool,
    pub(super) joins_cluster: bool,
    /// Brokers to remove: the address's holder under another name or cluster, and the id's former holder.
    pub(super) leaving: Vec<(BrokerKey, RemovedBy)>,
    /// The id that this address had in this group before, when it was another.
    pub(super) former_id: Option<i64>,
    /// The group loses its master by this (the master itself now has another id).
    pub(super) loses_master: bool,
}

impl Plan<'_> {
    /// Whether nothing would change: the registration is a heartbeat.
    pub(super) fn is_empty(&self) -> bool {
        let Self { group_changes, live_changes, joins_cluster, loses_master, .. } = *self;
        !(group_changes || live_changes || joins_cluster || loses_master)
            && self.put.is_empty()
            && self.absent.is_empty()
            && self.static_infos.is_empty()
            && self.filter_servers.is_none()
            && self.leaving.is_empty()
    }

    /// Whether it changes nothing of the broker name but queues and this broker's own live info.
    pub(super) fn leaves_group_alone(&self) -> bool {
        !(self.group_changes || self.joins_cluster || self.loses_master) && self.leaving.is_empty()
    }
}

/// How a registration's topics are looked at.
struct TopicRule {
    /// The id may register topics: it is the master, or stands in for one.
    takes: bool,
    /// All of them are taken, not only those that are missing.
    all: bool,
    /// They lose write permission: a slave of an acting-master group stands in.
    wipes: bool,
}

impl TopicRule {
    /// For a registration of a group that keeps these slots.
    fn of(r: &Registration, kept: &[&(i64, Name)], all: bool) -> Self {
        let master_among_kept = kept.iter().any(|(id, _)| *id == MASTER_ID);
        // With a master in the group a lower (negative) id is a candidate of DLedger, not a stand-in.
        let stands_in = r.acting_master.is_some()
            && r.id != MASTER_ID
            && !master_among_kept
            && kept.iter().all(|(id, _)| *id >= r.id);
        let (takes, wipes) = (r.id == MASTER_ID || stands_in, stands_in && r.acting_master == Some(true));
        Self { takes, all, wipes }
    }

    fn queue(&self, queue: QueueConfig) -> QueueConfig {
        if self.wipes { QueueConfig { perm: queue.perm & !PERM_WRITE, ..queue } } else { queue }
    }
}

impl RouteInfo {
    /// What a registration would do.
    ///
    /// # Errors
    /// The outcome of a registration that is refused.
    pub(super) fn plan_registration<'a>(&self, r: &'a Registration) -> Result<Plan<'a>, Outcome> {
        if let Basis::Difference { group_version, .. } = r.basis {
            let current = self.group_version(&r.broker);
            if current != group_version {
                return Err(Outcome::Conflict { group_version: current });
            }
        }
        let topics = sorted(&r.topics);
        let topic_count = match r.basis {
            Basis::Whole => u32::try_from(topics.len()).unwrap_or(u32::MAX),
            Basis::Difference { topic_count, .. } => topic_count,
        };
        let group = self.groups.get(&r.broker);
        let slots = group.map_or(&[][..], |g| &g.brokers);
        let kept = kept_slots(r, slots);
        let holder = kept.iter().find(|(id, _)| *id == r.id).map(|(_, address)| address);
        if let Some(holder) = holder.filter(|holder| **holder != r.address)
            && self.outdated_against(r, holder)
        {
            return Err(Outcome::Outdated);
        }
        if holder.is_none() && topic_count == 1 {
            return Err(Outcome::SingleTopic);
        }

        let key = BrokerKey { cluster: r.cluster.clone(), address: r.address.clone() };
        let registered = self.live.get(&key);
        let previous = registered.filter(|live| live.broker == r.broker);
        let all = holder.is_none() || previous.is_none_or(|live| live.data_version != r.data_version);
        let rule = TopicRule::of(r, &kept, all);
        let put = self.topics_to_put(r, &topics, &rule);
        let absent = self.topics_to_drop(r, &topics, &rule);
        let static_infos = self.static_infos_to_put(r, &rule);

        let after = self.group_after(r, group, &kept);
        let live = live_after(r);
        let had_master = slots.iter().any(|(id, _)| *id == MASTER_ID);
        Ok(Plan {
            put,
            absent,
            static_infos,
            filter_servers: self.filter_servers_to_put(r, previous.map(|_| &key)),
            topic_count,
            group_changes: group.is_none_or(|before| !same_group(before, &after)),
            loses_master: after.acting_master && had_master && after.master().is_none(),
            joins_cluster: self.clusters.get(&r.cluster).is_none_or(|names| !names.contains(&r.broker)),
            live_changes: previous.is_none_or(|before| !same_live(before, &live)),
            known: previous.is_some(),
            leaving: self.leaving(r, group, holder, registered),
            former_id: slots.iter().find(|(id, a)| *a == r.address && *id != r.id).map(|(id, _)| *id),
            group: after,
            live,
        })
    }

    /// Whether the table has all that a registration would set of its topics' queues, were its version new to it.
    /// While nothing of the broker name changes but other topics' queues, the same topics registered by the
    /// same id and flag go on to change nothing.
    #[must_use]
    pub fn holds_topics(&self, r: &Registration) -> bool {
        let slots = self.groups.get(&r.broker).map_or(&[][..], |group| &group.brokers);
        let rule = TopicRule::of(r, &kept_slots(r, slots), true);
        self.topics_to_put(r, &sorted(&r.topics), &rule).is_empty()
    }

    /// Whether the id's holder in this cluster has a higher state version.
    pub(super) fn outdated_against(&self, r: &Registration, holder: &Name) -> bool {
        let key = BrokerKey { cluster: r.cluster.clone(), address: holder.clone() };
        self.live.get(&key).is_some_and(|live| {
            live.broker == r.broker && live.data_version.state_version > r.data_version.state_version
        })
    }

    fn topics_to_put<'a>(
        &self,
        r: &Registration,
        topics: &[&'a TopicConfig],
        rule: &TopicRule,
    ) -> Vec<(&'a Name, QueueConfig)> {
        if !rule.takes {
            return Vec::new();
        }
        let put = topics.iter().filter_map(|config| {
            let queue = rule.queue(config.queues);
            let taken = match self.queue(&config.topic, &r.broker) {
                None => true,
                Some(present) => rule.all && present != queue,
            };
            taken.then_some((&config.topic, queue))
        });
        put.collect()
    }

    fn topics_to_drop(&self, r: &Registration, topics: &[&TopicConfig], rule: &TopicRule) -> Vec<Name> {
        let deletes =
            rule.takes && self.settings.delete_topic_with_broker_registration && r.static_infos.is_empty();
        let Some(known) = self.topics_of.get(&r.broker).filter(|_| deletes) else { return Vec::new() };
        match &r.basis {
            Basis::Whole => known
                .iter()
                .filter(|name| topics.binary_search_by(|config| config.topic.cmp(name)).is_err())
                .cloned()
                .collect(),
            Basis::Difference { absent, .. } => {
                let named: BTreeSet<&Name> = absent.iter().collect();
                known.iter().filter(|name| named.contains(name)).cloned().collect()
            }
        }
    }

    fn static_infos_to_put<'a>(
        &self,
        r: &'a Registration,
        rule: &TopicRule,
    ) -> Vec<&'a (Name, StaticTopicInfo)> {
        if !(rule.takes && rule.all) {
            return Vec::new();
        }
        // An info that names another broker is left out: a broker writes only its own.
        let mut last = BTreeMap::new();
        for pair in r.static_infos.iter().filter(|(_, info)| info.broker.as_ref() == Some(&r.broker)) {
            last.insert(&pair.0, pair);
        }
        let present = |topic: &Name| self.static_topics.get(topic)?.get(&r.broker);
        last.into_values().filter(|(topic, info)| present(topic).is_none_or(|p| **p != *info)).collect()
    }

    fn filter_servers_to_put<'a>(
        &self,
        r: &'a Registration,
        known: Option<&BrokerKey>,
    ) -> Option<&'a Vec<Name>> {
        let present = known.and_then(|key| self.filter_servers.get(key)).map_or(&[][..], |list| list);
        r.filter_servers.as_ref().filter(|list| list.as_slice() != present)
    }

    fn group_after(&self, r: &Registration, group: Option<&BrokerData>, kept: &[&(i64, Name)]) -> BrokerData {
        let mut brokers: BTreeMap<i64, Name> =
            kept.iter().map(|(id, address)| (*id, address.clone())).collect();
        brokers.insert(r.id, r.address.clone());
        BrokerData {
            cluster: group.map_or_else(|| r.cluster.clone(), |g| g.cluster.clone()),
            zone: r.zone.clone(),
            acting_master: r.acting_master == Some(true),
            brokers: brokers.into_iter().collect(),
            version: Position::default(),
        }
    }

    fn leaving(
        &self,
        r: &Registration,
        group: Option<&BrokerData>,
        holder: Option<&Name>,
        registered: Option<&BrokerLiveInfo>,
    ) -> Vec<(BrokerKey, RemovedBy)> {
        let mut leaving = Vec::new();
        let key = BrokerKey { cluster: r.cluster.clone(), address: r.address.clone() };
        if registered.is_some_and(|live| live.broker != r.broker) {
            leaving.push((key.clone(), RemovedBy::Moved));
        }
        if group.is_some_and(|g| g.brokers.iter().any(|(_, address)| *address == r.address))
            && let Some(other) = self.broker_key(&r.broker, &r.address).filter(|other| *other != key)
        {
            leaving.push((other, RemovedBy::Moved));
        }
        if let Some(holder) = holder.filter(|holder| **holder != r.address)
            && let Some(other) = self.broker_key(&r.broker, holder)
        {
            leaving.push((other, RemovedBy::Replaced));
        }
        leaving
    }
}

/// An address appears once per name: its other ids go first.
fn kept_slots<'a>(r: &Registration, slots: &'a [(i64, Name)]) -> Vec<&'a (i64, Name)> {
    slots.iter().filter(|(id, address)| *address != r.address || *id == r.id).collect()
}

fn live_after(r: &Registration) -> BrokerLiveInfo {
    BrokerLiveInfo {
        broker: r.broker.clone(),
        id: r.id,
        data_version: r.data_version,
        timeout_ms: r
            .heartbeat_timeout_ms
            .map_or(HEARTBEAT_TIMEOUT_DEFAULT_MS, |ms| u64::try_from(ms).unwrap_or(0)),
        ha_address: r.ha_address.clone(),
        incarnation: Position::default(),
    }
}

fn same_group(a: &BrokerData, b: &BrokerData) -> bool {
    a.zone == b.zone && a.acting_master == b.acting_master && a.brokers == b.brokers
}

fn same_live(a: &BrokerLiveInfo, b: &BrokerLiveInfo) -> bool {
    a.broker == b.broker
        && a.id == b.id
        && a.data_version == b.data_version
        && a.timeout_ms == b.timeout_ms
        && a.ha_address == b.ha_address
}

/// Topics in name order, no name twice (the last one counts), whatever the order they came in.
fn sorted(topics: &[TopicConfig]) -> Vec<&TopicConfig> {
    if topics.is_sorted_by(|a, b| a.topic < b.topic) {
        return topics.iter().collect();
    }
    let by_name: BTreeMap<&Name, &TopicConfig> = topics.iter().map(|t| (&t.topic, t)).collect();
    by_name.into_values().collect()
}
