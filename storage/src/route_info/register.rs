//! REGISTER_BROKER: carrying a registration out.

use super::plan::Plan;
use super::{BrokerData, BrokerKey, BrokerLiveInfo, RouteInfo};
use crate::Position;
use crate::command::{Name, PERM_WRITE, Registration};
use crate::outcome::{ConflictKind, Event, Outcome, PermissionCause, RemovedBy};
use std::collections::BTreeMap;
use std::sync::Arc;

impl RouteInfo {
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
            self.push_conflicts(r, events);
        }
        let version_before = self.group_version(&r.broker);
        let lowest_before = self.groups.get(&r.broker).and_then(|g| g.lowest().map(|(id, _)| *id));
        let routes_change = plan.group_changes || plan.filter_servers.is_some() || !plan.leaving.is_empty();
        if routes_change {
            self.brokers_version = at;
        }
        self.remove_replaced(at, &plan, r, events);
        self.put_broker(at, &plan, r, events);
        self.take_topics(at, &plan, r, events);
        self.take_static_infos(at, &plan, r);
        self.take_filter_servers(&plan, r);
        if plan.loses_master {
            self.wipe_for_missing_master(at, &r.broker, events);
        }
        if lowest_before.is_some_and(|lowest| r.id < lowest) {
            self.push_lower_id(r, events);
        }
        if plan.leaves_group_alone() {
            let put = plan.put.iter().map(|(topic, _)| (*topic).clone());
            self.note_topic_change(&r.broker, version_before, at, put.chain(plan.absent.iter().cloned()));
        }
        Outcome::Done { changed: true }
    }

    /// A registration took a broker name from one version to the next and touched these topics only.
    fn note_topic_change(
        &mut self,
        broker: &Name,
        from: Position,
        to: Position,
        topics: impl Iterator<Item = Name>,
    ) {
        let changes = self.topic_changes.entry(broker.clone()).or_default();
        *changes = changes.and(from, to, topics);
    }

    /// Removes the brokers whose place this registration takes.
    fn remove_replaced(&mut self, at: Position, plan: &Plan<'_>, r: &Registration, events: &mut Vec<Event>) {
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
                events.push(removed_event(&key, &BrokerLiveInfo { id, ..live.clone() }, RemovedBy::Moved));
            }
        }
    }

    /// Writes the group, the cluster and the live entry.
    fn put_broker(&mut self, at: Position, plan: &Plan<'_>, r: &Registration, events: &mut Vec<Event>) {
        let broker =
            self.groups.get_key_value(&r.broker).map_or_else(|| r.broker.clone(), |(k, _)| k.clone());
        let cluster =
            self.clusters.get_key_value(&r.cluster).map_or_else(|| r.cluster.clone(), |(k, _)| k.clone());
        if plan.joins_cluster {
            self.clusters.entry(cluster.clone()).or_default().insert(broker.clone());
        }
        match self.groups.get_mut(&broker) {
            Some(group) if !plan.group_changes => group.version = at,
            Some(group) => *group = BrokerData { version: at, ..plan.group.clone() },
            None => {
                let group = BrokerData { version: at, cluster: cluster.clone(), ..plan.group.clone() };
                self.groups.insert(broker.clone(), group);
            }
        }
        let key = BrokerKey { cluster, address: r.address.clone() };
        let live = BrokerLiveInfo { incarnation: at, broker: broker.clone(), ..plan.live.clone() };
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
pub(super) fn removed_event(key: &BrokerKey, live: &BrokerLiveInfo, cause: RemovedBy) -> Event {
    Event::BrokerRemoved {
        cluster: key.cluster.clone(),
        broker: live.broker.clone(),
        id: live.id,
        address: key.address.clone(),
        incarnation: live.incarnation,
        cause,
    }
}
