//! `GET /api/v1/history`: what happened to a topic or a broker, from the audit ring of the tables.

use super::api::seconds;
use crate::event_log::describe_conflict;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use storage::RouteInfo;
use storage::command::{Cause, Name, PERM_READ, PERM_WRITE, QueueConfig};
use storage::outcome::{Event, PermissionCause, RemovedBy};
use storage::route_info::AuditRecord;

/// The history of one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryView {
    /// The name: a topic, a broker name, or a broker's `ip:port`.
    pub about: String,
    /// Whether the tables hold it now.
    pub known: bool,
    /// What the tables hold under it now, in a sentence.
    pub now: String,
    /// What happened, oldest first: the last `limit` records.
    pub records: Vec<RecordView>,
    /// Number of older records about it that were left out.
    pub left_out: usize,
    /// Wall clock of the oldest record about anything, milliseconds since 1970: the history reaches no further back.
    pub since_unix_ms: Option<u64>,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordView {
    /// Wall clock of the node that proposed it, milliseconds since 1970.
    pub unix_ms: u64,
    /// Index of its log entry.
    pub revision: u64,
    /// The node that proposed it.
    pub node: u64,
    /// The peer that requested it; empty when the leader decided it by itself.
    pub peer: String,
    /// Kind of the event, in camel case: `brokerRemoved`, `topicNew`, …
    pub kind: String,
    /// Broker name, if the event is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker: Option<String>,
    /// Topic, if the event is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// What happened and why, in a sentence.
    pub what: String,
}

impl HistoryView {
    /// Collects what the tables and the audit ring hold about a topic, a broker name or a broker's address.
    #[must_use]
    pub fn new(table: &RouteInfo, about: &str, limit: usize) -> Self {
        let subject = Subject::new(table, about);
        let records: Vec<&AuditRecord> =
            table.audit().filter(|record| subject.concerns(&record.event)).collect();
        let left_out = records.len().saturating_sub(limit);
        let now = now(table, about);
        Self {
            about: about.to_owned(),
            known: now.is_some(),
            now: now.unwrap_or_else(|| format!("{about} is neither a topic nor a broker in the table")),
            records: records.into_iter().skip(left_out).filter_map(RecordView::new).collect(),
            left_out,
            since_unix_ms: table.audit().next().map(|record| record.origin.unix_ms),
        }
    }
}

impl RecordView {
    fn new(record: &AuditRecord) -> Option<Self> {
        let (topic, broker) = names(&record.event);
        let (kind, what) = describe(&record.event)?;
        Some(Self {
            unix_ms: record.origin.unix_ms,
            revision: record.at.index,
            node: record.origin.node,
            peer: record.origin.peer.to_string(),
            kind: kind.to_owned(),
            broker: broker.map(ToString::to_string),
            topic: topic.map(ToString::to_string),
            what,
        })
    }
}

/// The subject of a history.
struct Subject<'a> {
    name: &'a str,
    /// Broker names that have or had the topic of that name: the topic comes and goes with them.
    carriers: BTreeSet<Name>,
}

impl<'a> Subject<'a> {
    fn new(table: &RouteInfo, name: &'a str) -> Self {
        let now =
            table.topic(name).into_iter().flat_map(|topic| topic.queues.iter()).map(|(broker, _)| broker);
        let before = table.audit().filter_map(|record| match names(&record.event) {
            (Some(topic), Some(broker)) if **topic == *name => Some(broker),
            _ => None,
        });
        Self { name, carriers: now.chain(before).cloned().collect() }
    }

    fn concerns(&self, event: &Event) -> bool {
        match event {
            Event::TopicNew { topic, .. }
            | Event::TopicChanged { topic, .. }
            | Event::TopicGone { topic, .. } => **topic == *self.name,
            Event::BrokerRegistered { broker, address, .. }
            | Event::BrokerRemoved { broker, address, .. } => **address == *self.name || self.is(broker),
            Event::NameGone { broker, .. }
            | Event::PermissionChanged { broker, .. }
            | Event::Conflict { broker, .. } => self.is(broker),
            Event::ClusterGone { .. }
            | Event::MinBrokerIdChanged { .. }
            | Event::KvChanged { .. }
            | Event::SettingsChanged { .. }
            | Event::EvictionGuardChanged { .. } => false,
        }
    }

    fn is(&self, broker: &Name) -> bool {
        **broker == *self.name || self.carriers.contains(broker)
    }
}

/// What the tables hold under a name, in a sentence; `None` when they hold nothing.
fn now(table: &RouteInfo, name: &str) -> Option<String> {
    let mut found = Vec::new();
    if let Some(topic) = table.topic(name) {
        let brokers: Vec<String> = topic
            .queues
            .iter()
            .map(|(broker, queues)| format!("{broker} ({})", describe_queues(*queues)))
            .collect();
        found.push(format!("topic {name} is on {}", brokers.join(", ")));
    }
    if let Some(group) = table.group(name) {
        let processes: Vec<String> =
            group.brokers.iter().map(|(id, address)| format!("id {id} at {address}")).collect();
        let topics = table.topics_of(name).map_or(0, |topics| topics.len());
        found.push(format!(
            "broker {name} of cluster {} has {}, and {topics} topics",
            group.cluster,
            processes.join(", ")
        ));
    }
    for (key, live) in table.live_brokers().filter(|(key, _)| *key.address == *name) {
        found.push(format!("{name} is id {} of broker {} in cluster {}", live.id, live.broker, key.cluster));
    }
    (!found.is_empty()).then(|| found.join("; "))
}

/// Topic and broker name of an event.
fn names(event: &Event) -> (Option<&Name>, Option<&Name>) {
    match event {
        Event::TopicNew { topic, broker, .. } | Event::TopicChanged { topic, broker, .. } => {
            (Some(topic), Some(broker))
        }
        Event::TopicGone { topic, broker } => (Some(topic), broker.as_ref()),
        Event::BrokerRegistered { broker, .. }
        | Event::BrokerRemoved { broker, .. }
        | Event::NameGone { broker, .. }
        | Event::PermissionChanged { broker, .. }
        | Event::MinBrokerIdChanged { broker, .. }
        | Event::Conflict { broker, .. } => (None, Some(broker)),
        Event::ClusterGone { .. }
        | Event::KvChanged { .. }
        | Event::SettingsChanged { .. }
        | Event::EvictionGuardChanged { .. } => (None, None),
    }
}

/// The kind of an event and what happened, in a sentence; `None` for an event that is about neither topics nor brokers.
fn describe(event: &Event) -> Option<(&'static str, String)> {
    Some(match event {
        Event::BrokerRegistered { cluster, broker, id, address, .. } => {
            ("brokerRegistered", format!("{broker} id {id} at {address} registered in cluster {cluster}"))
        }
        Event::BrokerRemoved { broker, id, address, cause, .. } => {
            ("brokerRemoved", format!("{broker} id {id} at {address} removed: {}", reason(*cause)))
        }
        Event::NameGone { cluster, broker } => (
            "brokerNameGone",
            format!("{broker} has no process left in cluster {cluster}; its topics went with it"),
        ),
        Event::TopicNew { topic, broker, queues, resurrected } => {
            let again =
                if *resurrected { ", though it had been deleted: the broker still has it" } else { "" };
            ("topicNew", format!("{topic} new on {broker}: {}{again}", describe_queues(*queues)))
        }
        Event::TopicChanged { topic, broker, old, new } => (
            "topicChanged",
            format!(
                "{topic} changed on {broker}: {}, before: {}",
                describe_queues(*new),
                describe_queues(*old)
            ),
        ),
        Event::TopicGone { topic, broker } => {
            let from = broker.as_ref().map_or_else(String::new, |broker| format!(" from {broker}"));
            ("topicGone", format!("{topic} gone{from}"))
        }
        Event::PermissionChanged { broker, writable, why, topics } => {
            let what = if *writable { "may be written again" } else { "may no longer be written" };
            let why = match why {
                PermissionCause::Asked => "requested",
                PermissionCause::MasterGone => "its master is gone, a slave acts as the master",
            };
            ("permissionChanged", format!("{topics} topics of {broker} {what}: {why}"))
        }
        Event::Conflict { kind, broker, id, holder, claimant } => (
            "conflict",
            format!(
                "{}: {broker} id {id}, held by {holder}, claimed by {claimant}",
                describe_conflict(*kind)
            ),
        ),
        Event::ClusterGone { .. }
        | Event::MinBrokerIdChanged { .. }
        | Event::KvChanged { .. }
        | Event::SettingsChanged { .. }
        | Event::EvictionGuardChanged { .. } => return None,
    })
}

fn reason(cause: RemovedBy) -> String {
    match cause {
        RemovedBy::Removal(Cause::Expired { idle_ms }) => {
            format!("idle for {}", seconds(idle_ms))
        }
        RemovedBy::Removal(Cause::Disconnected) => "it closed its last connection".to_owned(),
        RemovedBy::Removal(Cause::Asked) => "it unregistered".to_owned(),
        RemovedBy::Moved => "its address registered elsewhere".to_owned(),
        RemovedBy::Replaced => "another address took its id".to_owned(),
    }
}

fn describe_queues(queues: QueueConfig) -> String {
    let permission = match (queues.perm & PERM_READ != 0, queues.perm & PERM_WRITE != 0) {
        (true, true) => "read+write",
        (true, false) => "read only",
        (false, true) => "write only",
        (false, false) => "no access",
    };
    format!("{} read and {} write queues, {permission}", queues.read, queues.write)
}

#[cfg(test)]
mod tests;
