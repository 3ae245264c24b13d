//! The topic table: queues per broker name, with its reverse index.

use super::{RouteInfo, Topic};
use crate::Position;
use crate::command::{DeleteTopic, Name, QueueConfig, RegisterTopic};
use crate::outcome::{Event, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Deleted topics that are remembered, so that one that a broker brings back can be told from a new one.
pub(super) const DELETED_TOPICS_MAX: usize = 10_000;

impl RouteInfo {
    /// Sets queues of topics on one broker name, with an event for each new or changed one. The caller moves the
    /// group's version.
    pub(super) fn put_queues(
        &mut self,
        at: Position,
        broker: &Name,
        put: &[(&Name, QueueConfig)],
        events: &mut Vec<Event>,
    ) {
        if put.is_empty() {
            return;
        }
        let broker = self.groups.get_key_value(broker).map_or_else(|| broker.clone(), |(key, _)| key.clone());
        let mut index = self.topics_of.remove(&broker).unwrap_or_default();
        for &(name, queue) in put {
            let (topic, old) = self.put_queue(at, name, &broker, queue);
            match old {
                Some(old) => {
                    events.push(Event::TopicChanged { topic, broker: broker.clone(), old, new: queue });
                }
                None => {
                    index.insert(topic.clone());
                    let resurrected = self.deleted.contains_key(&topic);
                    events.push(Event::TopicNew {
                        topic,
                        broker: broker.clone(),
                        queues: queue,
                        resurrected,
                    });
                }
            }
        }
        self.topics_of.insert(broker, index);
    }

    /// Sets the queues of one topic on one broker name; gives the table's own copy of the topic's name and the
    /// queues of before.
    fn put_queue(
        &mut self,
        at: Position,
        name: &Name,
        broker: &Name,
        queue: QueueConfig,
    ) -> (Name, Option<QueueConfig>) {
        let Some((key, topic)) = self.topics.get_key_value_mut(name) else {
            let topic = Topic { version: at, queues: Arc::from([(broker.clone(), queue)]) };
            self.topics.insert(name.clone(), topic);
            return (name.clone(), None);
        };
        topic.version = at;
        match topic.queues.binary_search_by(|(other, _)| other.cmp(broker)) {
            Ok(found) => {
                let entry = Arc::make_mut(&mut topic.queues).get_mut(found);
                let old = entry.map(|(_, present)| std::mem::replace(present, queue));
                (key.clone(), old)
            }
            Err(place) => {
                let (before, after) = topic.queues.split_at(place);
                let mut queues = Vec::with_capacity(topic.queues.len() + 1);
                queues.extend_from_slice(before);
                queues.push((broker.clone(), queue));
                queues.extend_from_slice(after);
                topic.queues = queues.into();
                (key.clone(), None)
            }
        }
    }

    /// Takes one topic from one broker name. The caller moves the group's version.
    pub(super) fn drop_queue(&mut self, at: Position, name: &Name, broker: &Name) {
        if let Some(index) = self.topics_of.get_mut(broker) {
            index.remove(name);
            if index.is_empty() {
                self.topics_of.remove(broker);
            }
        }
        self.filter_queues(at, name, |other| other != broker);
    }

    /// Keeps some of a topic's queues; a topic without any goes. Says whether it went.
    fn filter_queues(&mut self, at: Position, name: &Name, keep: impl Fn(&Name) -> bool) -> bool {
        let Some(topic) = self.topics.get(name) else { return false };
        let kept: Vec<(Name, QueueConfig)> =
            topic.queues.iter().filter(|(broker, _)| keep(broker)).cloned().collect();
        if kept.is_empty() {
            self.topics.remove(name);
            return true;
        }
        if kept.len() < topic.queues.len()
            && let Some(topic) = self.topics.get_mut(name)
        {
            *topic = Topic { version: at, queues: kept.into() };
        }
        false
    }

    /// Takes all topics from broker names that are gone. Each topic's list is built once, however many go.
    pub(super) fn drop_queues_of(&mut self, at: Position, gone: &BTreeSet<Name>, events: &mut Vec<Event>) {
        let indexes: Vec<_> = gone.iter().filter_map(|name| self.topics_of.remove(name)).collect();
        let listed: usize = indexes.iter().map(imbl::OrdSet::len).sum();
        // Uniting the indexes costs what they list together; looking at every topic costs the table.
        let touched: Vec<Name> = if listed < self.topics.len() {
            indexes.iter().flatten().cloned().collect::<BTreeSet<Name>>().into_iter().collect()
        } else {
            self.topics.keys().cloned().collect()
        };
        let gone: Vec<&Name> = gone.iter().collect();
        for name in touched {
            if self.subtract_queues(at, &name, &gone) {
                events.push(Event::TopicGone { topic: name, broker: None });
            }
        }
    }

    /// Takes sorted broker names from a topic's (sorted) queues; a topic without any goes. Says whether it went.
    fn subtract_queues(&mut self, at: Position, name: &Name, gone: &[&Name]) -> bool {
        let Some(topic) = self.topics.get(name) else { return false };
        let mut next = gone.iter().copied().peekable();
        let mut kept = Vec::with_capacity(topic.queues.len());
        for pair in topic.queues.iter() {
            while next.next_if(|name| **name < pair.0).is_some() {}
            if next.next_if(|name| **name == pair.0).is_none() {
                kept.push(pair.clone());
            }
        }
        if kept.is_empty() {
            self.topics.remove(name);
            return true;
        }
        if kept.len() < topic.queues.len() {
            self.topics.insert(name.clone(), Topic { version: at, queues: kept.into() });
        }
        false
    }

    /// What REGISTER_TOPIC would set; the last queue data of a broker name count.
    ///
    /// # Errors
    /// A broker name is unknown.
    pub(super) fn plan_register_topic<'a>(
        &self,
        command: &'a RegisterTopic,
    ) -> Result<BTreeMap<&'a Name, QueueConfig>, Outcome> {
        if let Some((broker, _)) = command.queues.iter().find(|(name, _)| !self.groups.contains_key(name)) {
            return Err(Outcome::UnknownBroker { broker: broker.clone() });
        }
        let mut put: BTreeMap<&Name, QueueConfig> = command.queues.iter().map(|(n, q)| (n, *q)).collect();
        put.retain(|broker, queue| self.queue(&command.topic, broker) != Some(*queue));
        Ok(put)
    }

    /// Carries REGISTER_TOPIC out: all or nothing.
    pub(super) fn register_topic(
        &mut self,
        at: Position,
        command: &RegisterTopic,
        events: &mut Vec<Event>,
    ) -> Outcome {
        let put = match self.plan_register_topic(command) {
            Ok(put) => put,
            Err(outcome) => return outcome,
        };
        if put.is_empty() {
            return Outcome::Done { changed: false };
        }
        // Made again on purpose: no later registration brings a deleted topic back.
        self.deleted.remove(&command.topic);
        for (broker, queue) in put {
            self.put_queues(at, broker, &[(&command.topic, queue)], events);
            self.touch_group(at, broker);
        }
        Outcome::Done { changed: true }
    }

    /// Broker names that DELETE_TOPIC would take the topic from.
    pub(super) fn plan_delete_topic(&self, command: &DeleteTopic) -> BTreeSet<Name> {
        let Some(topic) = self.topics.get(&command.topic) else { return BTreeSet::new() };
        let names = topic.queues.iter().map(|(name, _)| name);
        match &command.cluster {
            None => names.cloned().collect(),
            Some(cluster) => {
                let Some(members) = self.clusters.get(cluster) else { return BTreeSet::new() };
                names.filter(|name| members.contains(*name)).cloned().collect()
            }
        }
    }

    /// Carries DELETE_TOPIC out.
    pub(super) fn delete_topic(
        &mut self,
        at: Position,
        command: &DeleteTopic,
        events: &mut Vec<Event>,
    ) -> Outcome {
        let names = self.plan_delete_topic(command);
        if names.is_empty() {
            return Outcome::Done { changed: false };
        }
        self.filter_queues(at, &command.topic, |broker| !names.contains(broker));
        let all = !self.topics.contains_key(&command.topic);
        for broker in &names {
            if let Some(index) = self.topics_of.get_mut(broker) {
                index.remove(&command.topic);
                if index.is_empty() {
                    self.topics_of.remove(broker);
                }
            }
            self.touch_group(at, broker);
            if !all {
                events.push(Event::TopicGone { topic: command.topic.clone(), broker: Some(broker.clone()) });
            }
        }
        if all {
            events.push(Event::TopicGone { topic: command.topic.clone(), broker: None });
        }
        self.remember_deleted(at, &command.topic);
        Outcome::Done { changed: true }
    }

    fn remember_deleted(&mut self, at: Position, topic: &Name) {
        if self.deleted.len() >= DELETED_TOPICS_MAX && !self.deleted.contains_key(topic) {
            let oldest = self.deleted.iter().min_by_key(|(_, position)| **position);
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                self.deleted.remove(&name);
            }
        }
        self.deleted.insert(topic.clone(), at);
    }

    /// Moves a group's version.
    pub(super) fn touch_group(&mut self, at: Position, broker: &Name) {
        if let Some(group) = self.groups.get_mut(broker) {
            group.version = at;
        }
    }
}
