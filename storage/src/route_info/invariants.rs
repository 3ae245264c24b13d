//! What holds in every state, whatever the history. Checked when a snapshot is loaded, and by property tests.

use super::audit::AUDIT_RECORDS_MAX;
use super::topics::DELETED_TOPICS_MAX;
use super::{BrokerData, RouteInfo, kv};
use crate::Position;
use crate::command::Name;
use std::collections::BTreeSet;

impl RouteInfo {
    /// Checks the state as a whole.
    ///
    /// # Errors
    /// What is impossible, in words.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.check_topics()?;
        self.check_groups()?;
        self.check_rest()?;
        self.check_bytes()?;
        self.check_versions()
    }

    fn check_topics(&self) -> Result<(), String> {
        let mut listed = 0;
        for (name, topic) in &self.topics {
            if topic.queues.is_empty() {
                return Err(format!("topic {name:?} has no queues"));
            }
            if !topic.queues.is_sorted_by(|a, b| a.0 < b.0) {
                return Err(format!("topic {name:?} lists its broker names out of order or twice"));
            }
            for (broker, _) in topic.queues.iter() {
                if !self.groups.contains_key(broker) {
                    return Err(format!("topic {name:?} has queues on {broker:?}, which has no broker"));
                }
                if !self.topics_of.get(broker).is_some_and(|topics| topics.contains(name)) {
                    return Err(format!("the index of {broker:?} lacks its topic {name:?}"));
                }
                listed += 1;
            }
        }
        if self.topics_of.values().any(imbl::OrdSet::is_empty) {
            return Err("the index of a broker name is empty".into());
        }
        let indexed: usize = self.topics_of.values().map(imbl::OrdSet::len).sum();
        if indexed != listed {
            return Err(format!("the index holds {indexed} pairs, the topics hold {listed}"));
        }
        Ok(())
    }

    fn check_groups(&self) -> Result<(), String> {
        let mut slots = 0;
        for (name, group) in &self.groups {
            self.check_group(name, group)?;
            slots += group.brokers.len();
        }
        if slots != self.live.len() {
            return Err(format!("{} brokers are live, the broker names list {slots}", self.live.len()));
        }
        for (cluster, names) in &self.clusters {
            if names.is_empty() {
                return Err(format!("cluster {cluster:?} is empty"));
            }
            if let Some(name) = names.iter().find(|name| !self.groups.contains_key(*name)) {
                return Err(format!("cluster {cluster:?} lists {name:?}, which has no broker"));
            }
        }
        Ok(())
    }

    fn check_group(&self, name: &Name, group: &BrokerData) -> Result<(), String> {
        if group.brokers.is_empty() || !group.brokers.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(format!("broker name {name:?} lists its ids out of order, twice, or none"));
        }
        let addresses: BTreeSet<&Name> = group.brokers.iter().map(|(_, address)| address).collect();
        if addresses.len() < group.brokers.len() {
            return Err(format!("broker name {name:?} lists an address twice"));
        }
        if !self.clusters.get(&group.cluster).is_some_and(|names| names.contains(name)) {
            return Err(format!("cluster {:?} lacks its broker name {name:?}", group.cluster));
        }
        for (id, address) in group.brokers.iter() {
            let key = self.broker_key(name, address);
            let Some((key, live)) = key.and_then(|key| Some((key.clone(), self.live.get(&key)?))) else {
                return Err(format!("broker {address:?} of {name:?} is not live"));
            };
            if live.id != *id {
                return Err(format!("broker {address:?} is live as id {}, listed as {id}", live.id));
            }
            if !self.clusters.get(&key.cluster).is_some_and(|names| names.contains(name)) {
                return Err(format!("cluster {:?} lacks broker name {name:?}", key.cluster));
            }
        }
        Ok(())
    }

    fn check_rest(&self) -> Result<(), String> {
        for (key, list) in &self.filter_servers {
            if list.is_empty() || !self.live.contains_key(key) {
                return Err(format!("filter servers of {key:?}: none, or their broker is not live"));
            }
        }
        for (topic, infos) in &self.static_topics {
            if infos.is_empty() {
                return Err(format!("static topic {topic:?} has no mapping"));
            }
            if let Some((name, _)) =
                infos.iter().find(|(n, i)| !self.groups.contains_key(*n) || i.broker.as_ref() != Some(n))
            {
                return Err(format!("a static mapping of {topic:?} is not that of a known broker {name:?}"));
            }
        }
        if self.audit.len() > AUDIT_RECORDS_MAX || self.deleted.len() > DELETED_TOPICS_MAX {
            return Err("the history is longer than its limit".into());
        }
        Ok(())
    }

    /// What is counted beside the tables is what they hold.
    fn check_bytes(&self) -> Result<(), String> {
        for (namespace, keys) in &self.kv {
            let counted: usize = keys.iter().map(|(key, value)| kv::entry_bytes(key, value.as_ref())).sum();
            if self.kv_namespace_bytes(namespace) != counted {
                return Err(format!(
                    "KV namespace {namespace:?} has {counted} bytes, which is not what is counted"
                ));
            }
        }
        if self.audit_bytes != self.count_history_bytes() {
            return Err(format!("the history is counted as {} bytes", self.audit_bytes));
        }
        Ok(())
    }

    fn check_versions(&self) -> Result<(), String> {
        let now = self.revision.map_or(0, |id| id.index);
        let highest = self.highest_version();
        if highest.index > now && highest != Position::default() {
            return Err(format!("something changed at {highest}, after the last applied entry {now}"));
        }
        Ok(())
    }

    fn highest_version(&self) -> Position {
        let topics = self.topics.values().map(|topic| topic.version);
        let groups = self.groups.values().map(|group| group.version);
        let lives = self.live.values().map(|live| live.incarnation);
        let records = self.audit.iter().map(|record| record.at).chain(self.deleted.values().copied());
        let own = [self.brokers_version, self.settings_version, self.eviction_guard.unwrap_or_default()];
        topics.chain(groups).chain(lives).chain(records).chain(own).max().unwrap_or_default()
    }
}
