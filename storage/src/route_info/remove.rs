//! Removals of brokers: by request, disconnected, expired. One pass over the topics for all brokers of a batch.

use super::register::removed_event;
use super::{BrokerKey, BrokerLiveInfo, RouteInfo};
use crate::command::{Cause, Name, Removal, RemoveBrokers};
use crate::outcome::{Event, Outcome, RemovedBy};
use crate::{At, Position};
use std::collections::{BTreeMap, BTreeSet};

impl RouteInfo {
    /// Carries removals out.
    pub(super) fn remove_brokers(
        &mut self,
        at: At,
        command: &RemoveBrokers,
        events: &mut Vec<Event>,
    ) -> Outcome {
        if command.decided_in_term.is_some_and(|term| term != at.term) {
            return Outcome::Removed { count: 0 };
        }
        let mut count = 0;
        let mut touched: BTreeMap<Name, Option<(i64, Name)>> = BTreeMap::new();
        for removal in &command.brokers {
            let Some((key, live)) = self.removal_target(removal) else { continue };
            let live = live.clone();
            let lowest = self.groups.get(&live.broker).and_then(|group| group.lowest().cloned());
            touched.entry(live.broker.clone()).or_insert(lowest);
            self.detach(&key, &live, RemovedBy::Removal(removal.cause), events);
            count += 1;
        }
        self.settle(at.position(), &touched, events);
        Outcome::Removed { count }
    }

    /// The broker that a removal means. Broker name and address decide; a named incarnation must be the present one.
    /// Only a removal by request may come without one (the leader fills it in before it proposes).
    pub(super) fn removal_target(&self, removal: &Removal) -> Option<(BrokerKey, &BrokerLiveInfo)> {
        let named = BrokerKey { cluster: removal.cluster.clone(), address: removal.address.clone() };
        let key = match self.live.get(&named) {
            Some(live) if live.broker == removal.broker => named,
            _ => self.broker_key(&removal.broker, &removal.address)?,
        };
        let live = self.live.get(&key)?;
        let meant = match removal.incarnation {
            Some(incarnation) => incarnation == live.incarnation,
            None => removal.cause == Cause::Asked,
        };
        meant.then_some((key, live))
    }

    /// Takes a broker out of the live table, the filter servers and its group's ids. The group may be left
    /// empty: [`RouteInfo::settle`] must follow.
    pub(super) fn detach(
        &mut self,
        key: &BrokerKey,
        live: &BrokerLiveInfo,
        cause: RemovedBy,
        events: &mut Vec<Event>,
    ) {
        self.live.remove(key);
        self.filter_servers.remove(key);
        if let Some(group) = self.groups.get_mut(&live.broker) {
            group.brokers = group.brokers.iter().filter(|(_, a)| *a != key.address).cloned().collect();
        }
        events.push(removed_event(key, live, cause));
    }

    /// Brings everything else in line after brokers were detached from these names (given with the lowest id
    /// and address that each had before).
    pub(super) fn settle(
        &mut self,
        at: Position,
        touched: &BTreeMap<Name, Option<(i64, Name)>>,
        events: &mut Vec<Event>,
    ) {
        if touched.is_empty() {
            return;
        }
        self.brokers_version = at;
        let mut gone = BTreeSet::new();
        for (name, lowest_before) in touched {
            let Some(group) = self.groups.get_mut(name) else { continue };
            group.version = at;
            if group.brokers.is_empty() {
                gone.insert(name.clone());
                continue;
            }
            if group.acting_master && group.master().is_none() {
                self.wipe_for_missing_master(at, name, events);
            }
            self.push_lowest_left(name, lowest_before.as_ref(), events);
        }
        self.forget_names(at, &gone, events);
    }

    /// Removes broker names without brokers: from groups, clusters, topics and static mappings.
    fn forget_names(&mut self, at: Position, gone: &BTreeSet<Name>, events: &mut Vec<Event>) {
        if gone.is_empty() {
            return;
        }
        for name in gone {
            self.topic_changes.remove(name);
            if let Some(group) = self.groups.remove(name) {
                events.push(Event::NameGone { cluster: group.cluster, broker: name.clone() });
            }
        }
        let clusters: Vec<Name> = self.clusters.keys().cloned().collect();
        for cluster in clusters {
            let Some(names) = self.clusters.get(&cluster) else { continue };
            let left: imbl::OrdSet<Name> = names.iter().filter(|n| !gone.contains(*n)).cloned().collect();
            if left.is_empty() {
                self.clusters.remove(&cluster);
                events.push(Event::ClusterGone { cluster });
            } else if left.len() < names.len() {
                self.clusters.insert(cluster, left);
            }
        }
        self.forget_static_infos(at, gone);
        self.drop_queues_of(at, gone, events);
    }

    fn forget_static_infos(&mut self, at: Position, gone: &BTreeSet<Name>) {
        let touched: Vec<Name> = self
            .static_topics
            .iter()
            .filter(|(_, infos)| infos.keys().any(|name| gone.contains(name)))
            .map(|(topic, _)| topic.clone())
            .collect();
        for topic in touched {
            let Some(infos) = self.static_topics.get_mut(&topic) else { continue };
            for name in gone {
                infos.remove(name);
            }
            if infos.is_empty() {
                self.static_topics.remove(&topic);
            }
            if let Some(topic) = self.topics.get_mut(&topic) {
                topic.version = at;
            }
        }
    }

    /// The event for the members of a group whose lowest id has left (acting-master groups only, as in Java).
    fn push_lowest_left(&self, name: &Name, before: Option<&(i64, Name)>, events: &mut Vec<Event>) {
        let Some(group) = self.groups.get(name) else { return };
        let (Some((min_id, min_address)), Some((id_before, offline))) = (group.lowest(), before) else {
            return;
        };
        if !self.settings.notify_min_broker_id_changed || !group.acting_master || min_id == id_before {
            return;
        }
        events.push(Event::MinBrokerIdChanged {
            broker: name.clone(),
            min_id: *min_id,
            min_address: min_address.clone(),
            ha_address: None,
            offline_address: Some(offline.clone()),
            targets: group.brokers.iter().map(|(_, address)| address.clone()).collect(),
        });
    }
}
