//! REGISTER_BROKER: what a registration would change (pure), and carrying it out.

use super::{BrokerKey, Group, Live, RouteInfo};
use crate::Position;
use crate::command::{
    Basis, HEARTBEAT_TIMEOUT_DEFAULT_MS, MASTER_ID, Name, PERM_WRITE, QueueConfig, Registration,
    StaticTopicInfo, TopicConfig,
};
use crate::outcome::{ConflictKind, Event, Outcome, PermissionCause, RemovedBy};
use std::collections::BTreeMap;
use std::sync::Arc;

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
    group: Group,
    group_changes: bool,
    /// The live entry afterwards, and whether that differs beside its incarnation.
    live: Live,
    live_changes: bool,
    /// This (cluster, address) was live under this name before.
    known: bool,
    joins_cluster: bool,
    /// Who must leave: the address's holder under another name or cluster, and the id's former holder.
    leaving: Vec<(BrokerKey, RemovedBy)>,
    /// The id that this address had in this group before, when it was another.
    former_id: Option<i64>,
    /// The group loses its master by this (the master itself now has another id).
    loses_master: bool,
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
        // An address appears once per name: its other ids go first.
        let kept: Vec<&(i64, Name)> =
            slots.iter().filter(|(id, address)| *address != r.address || *id == r.id).collect();
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
        let master_among_kept = kept.iter().any(|(id, _)| *id == MASTER_ID);
        // With a master in the group a lower (negative) id is a candidate of DLedger, not a stand-in.
        let stands_in = r.acting_master.is_some()
            && r.id != MASTER_ID
            && !master_among_kept
            && kept.iter().all(|(id, _)| *id >= r.id);
        let rule = TopicRule {
            takes: r.id == MASTER_ID || stands_in,
            all: holder.is_none() || previous.is_none_or(|live| live.data_version != r.data_version),
            wipes: stands_in && r.acting_master == Some(true),
        };
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
        let asked =
            rule.takes && self.settings.delete_topic_with_broker_registration && r.static_infos.is_empty();
        let Some(known) = self.topics_of.get(&r.broker).filter(|_| asked) else { return Vec::new() };
        match &r.basis {
            Basis::Whole => known
                .iter()
                .filter(|name| topics.binary_search_by(|config| config.topic.cmp(name)).is_err())
                .cloned()
                .collect(),
            Basis::Difference { absent, .. } => {
                let named: std::collections::BTreeSet<&Name> = absent.iter().collect();
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
        // An info that names another broker is left out: nobody writes what another one owns.
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

    fn group_after(&self, r: &Registration, group: Option<&Group>, kept: &[&(i64, Name)]) -> Group {
        let mut brokers: BTreeMap<i64, Name> =
            kept.iter().map(|(id, address)| (*id, address.clone())).collect();
        brokers.insert(r.id, r.address.clone());
        Group {
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
        group: Option<&Group>,
        holder: Option<&Name>,
        registered: Option<&Live>,
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

    /// Carries a registration out.
    pub(super) fn register(&mut self, at: Position, r: &Registration, events: &mut Vec<Event>) -> Outcome {
        let plan = match self.plan_registration(r) {
            Ok(plan) => plan,
            Err(outcome) => {
                if outcome == Outcome::Outdated {
                    events.push(self.conflict(ConflictKind::StateVersion, r));
                }
                return outcome;
            }
        };
        if plan.is_empty() {
            return Outcome::Done { changed: false };
        }
        if !plan.known {
            self.tell_conflicts(r, events);
        }
        let lowest_before = self.groups.get(&r.broker).and_then(|g| g.lowest().map(|(id, _)| *id));
        let routes_change = plan.group_changes || plan.filter_servers.is_some() || !plan.leaving.is_empty();
        if routes_change {
            self.brokers_version = at;
        }
        self.let_leave(at, &plan, r, events);
        self.enter(at, &plan, r, events);
        self.take_topics(at, &plan, r, events);
        self.take_static_infos(at, &plan, r);
        self.take_filter_servers(&plan, r);
        if plan.loses_master {
            self.wipe_for_missing_master(at, &r.broker, events);
        }
        if lowest_before.is_some_and(|lowest| r.id < lowest) {
            self.tell_lower_id(r, events);
        }
        Outcome::Done { changed: true }
    }

    /// Removes those whose place this registration takes.
    fn let_leave(&mut self, at: Position, plan: &Plan<'_>, r: &Registration, events: &mut Vec<Event>) {
        for (key, cause) in &plan.leaving {
            let Some(live) = self.live.get(key).cloned() else { continue };
            if live.broker == r.broker {
                // Its slot in this group is rewritten with the group itself.
                self.live.remove(key);
                self.filter_servers.remove(key);
                events.push(removed_event(key, &live, *cause));
            } else {
                let lowest = self.groups.get(&live.broker).and_then(|g| g.lowest().cloned());
                let name = live.broker.clone();
                self.detach(key, &live, *cause, events);
                self.settle(at, &BTreeMap::from([(name, lowest)]), events);
            }
        }
        if let Some(id) = plan.former_id {
            let key = BrokerKey { cluster: r.cluster.clone(), address: r.address.clone() };
            if let Some(live) = self.live.get(&key) {
                events.push(removed_event(&key, &Live { id, ..live.clone() }, RemovedBy::Moved));
            }
        }
    }

    /// Writes the group, the cluster and the live entry.
    fn enter(&mut self, at: Position, plan: &Plan<'_>, r: &Registration, events: &mut Vec<Event>) {
        let broker =
            self.groups.get_key_value(&r.broker).map_or_else(|| r.broker.clone(), |(k, _)| k.clone());
        let cluster =
            self.clusters.get_key_value(&r.cluster).map_or_else(|| r.cluster.clone(), |(k, _)| k.clone());
        if plan.joins_cluster {
            self.clusters.entry(cluster.clone()).or_default().insert(broker.clone());
        }
        match self.groups.get_mut(&broker) {
            Some(group) if !plan.group_changes => group.version = at,
            Some(group) => *group = Group { version: at, ..plan.group.clone() },
            None => {
                let group = Group { version: at, cluster: cluster.clone(), ..plan.group.clone() };
                self.groups.insert(broker.clone(), group);
            }
        }
        let key = BrokerKey { cluster, address: r.address.clone() };
        let live = Live { incarnation: at, broker: broker.clone(), ..plan.live.clone() };
        match self.live.get_mut(&key) {
            Some(present) => *present = live,
            None => {
                self.live.insert(key, live);
            }
        }
        if plan.live_changes {
            events.push(Event::BrokerRegistered {
                cluster: r.cluster.clone(),
                broker,
                id: r.id,
                address: r.address.clone(),
                ha_address: r.ha_address.clone(),
                first: !plan.known,
            });
        }
    }

    fn take_topics(&mut self, at: Position, plan: &Plan<'_>, r: &Registration, events: &mut Vec<Event>) {
        for topic in &plan.absent {
            self.drop_queue(at, topic, &r.broker);
            events.push(Event::TopicGone { topic: topic.clone(), broker: Some(r.broker.clone()) });
        }
        self.put_queues(at, &r.broker, &plan.put, events);
    }

    fn take_static_infos(&mut self, at: Position, plan: &Plan<'_>, r: &Registration) {
        for (topic, info) in plan.static_infos.iter().copied() {
            self.static_topics
                .entry(topic.clone())
                .or_default()
                .insert(r.broker.clone(), Arc::new(info.clone()));
            if let Some(topic) = self.topics.get_mut(topic) {
                topic.version = at;
            }
        }
    }

    fn take_filter_servers(&mut self, plan: &Plan<'_>, r: &Registration) {
        let Some(list) = plan.filter_servers else { return };
        let key = BrokerKey { cluster: r.cluster.clone(), address: r.address.clone() };
        if list.is_empty() {
            self.filter_servers.remove(&key);
        } else {
            self.filter_servers.insert(key, list.iter().cloned().collect());
        }
    }

    /// Tells of another broker that claims the same place, before it changes hands.
    fn tell_conflicts(&self, r: &Registration, events: &mut Vec<Event>) {
        let Some(group) = self.groups.get(&r.broker) else { return };
        let holder = group.address(r.id).filter(|holder| **holder != r.address);
        let key = holder.and_then(|holder| self.broker_key(&r.broker, holder));
        let state = key.as_ref().and_then(|key| self.live.get(key)).map(|l| l.data_version.state_version);
        // A higher state version is a switch by a controller, not a quarrel.
        if state.is_some_and(|state| state == r.data_version.state_version) {
            events.push(self.conflict(ConflictKind::Address, r));
        }
        let elsewhere = group.brokers.iter().filter_map(|(_, address)| self.broker_key(&r.broker, address));
        if let Some(other) = elsewhere.into_iter().find(|key| key.cluster != r.cluster) {
            events.push(Event::Conflict {
                kind: ConflictKind::Cluster,
                broker: r.broker.clone(),
                id: r.id,
                holder: place(&other.cluster, &other.address),
                claimant: place(&r.cluster, &r.address),
            });
        }
    }

    /// Two addresses under the id of a registration.
    pub(super) fn conflict(&self, kind: ConflictKind, r: &Registration) -> Event {
        let holder = self.groups.get(&r.broker).and_then(|g| g.address(r.id)).cloned().unwrap_or_default();
        let key = self.broker_key(&r.broker, &holder);
        let cluster = key.map_or_else(|| r.cluster.clone(), |key| key.cluster);
        Event::Conflict {
            kind,
            broker: r.broker.clone(),
            id: r.id,
            holder: place(&cluster, &holder),
            claimant: place(&r.cluster, &r.address),
        }
    }

    fn tell_lower_id(&self, r: &Registration, events: &mut Vec<Event>) {
        let Some(group) = self.groups.get(&r.broker) else { return };
        if !self.settings.notify_min_broker_id_changed {
            return;
        }
        // The newcomer knows; alone in its group (it changed its own id) it is told all the same, as in Java.
        let alone = group.brokers.len() == 1;
        let targets = group.brokers.iter().filter(|(id, _)| alone || *id != r.id);
        events.push(Event::MinBrokerIdChanged {
            broker: r.broker.clone(),
            min_id: r.id,
            min_address: r.address.clone(),
            ha_address: r.ha_address.clone(),
            offline_address: None,
            targets: targets.map(|(_, address)| address.clone()).collect(),
        });
    }

    /// A group of acting masters is left without one: its queues become read only.
    pub(super) fn wipe_for_missing_master(&mut self, at: Position, broker: &Name, events: &mut Vec<Event>) {
        let topics = self.rewrite_permissions(at, broker, |perm| perm & !PERM_WRITE);
        if topics > 0 {
            let why = PermissionCause::MasterGone;
            events.push(Event::PermissionChanged { broker: broker.clone(), writable: false, why, topics });
        }
    }
}

/// The event of a broker that leaves.
pub(super) fn removed_event(key: &BrokerKey, live: &Live, cause: RemovedBy) -> Event {
    Event::BrokerRemoved {
        cluster: key.cluster.clone(),
        broker: live.broker.clone(),
        id: live.id,
        address: key.address.clone(),
        incarnation: live.incarnation,
        cause,
    }
}

fn place(cluster: &str, address: &str) -> Name {
    format!("{address} ({cluster})").into()
}

fn live_after(r: &Registration) -> Live {
    Live {
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

fn same_group(a: &Group, b: &Group) -> bool {
    a.zone == b.zone && a.acting_master == b.acting_master && a.brokers == b.brokers
}

fn same_live(a: &Live, b: &Live) -> bool {
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
