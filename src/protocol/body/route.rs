//! Routes: the body of GET_ROUTEINFO_BY_TOPIC.

use super::ORDER_TOPIC_NAMESPACE;
use super::brokers::broker_data;
use super::writer::Writer;
use crate::protocol::{GetRoute, JsonStyle};
use bytes::Bytes;
use std::borrow::Cow;
use storage::RouteInfo;
use storage::command::{Name, PERM_WRITE, QueueConfig, StaticTopicInfo};
use storage::route_info::{BrokerData, BrokerKey};

/// Topics by which brokers find the members of their own name: their routes show registered ids, no acting master.
const SYNC_MEMBERS_PREFIX: &str = "rmq_sys_SYNC_BROKER_MEMBER_";
/// The master's broker id.
const MASTER_ID: i64 = 0;

/// A broker name of the route.
struct RouteEntry<'a> {
    broker: &'a Name,
    queues: QueueConfig,
    /// `None` when the name has queues but is not registered.
    group: Option<&'a BrokerData>,
    /// Ids and addresses as the route shows them.
    brokers: Cow<'a, [(i64, Name)]>,
}

/// Writes the route of a topic; `None` when the topic is unknown or none of its broker names is registered.
#[must_use]
pub fn route(table: &RouteInfo, ask: &GetRoute<'_>) -> Option<Bytes> {
    let topic = ask.topic?;
    let queues = &table.topic(topic)?.queues;
    let acting_master = table.settings().support_acting_master && !topic.starts_with(SYNC_MEMBERS_PREFIX);
    let mut entries: Vec<RouteEntry<'_>> =
        queues.iter().map(|(broker, queues)| entry(table, broker, *queues, acting_master)).collect();
    if entries.iter().all(|entry| entry.group.is_none()) {
        return None;
    }
    // Java writes a filtered route again by its default writer: it has the old style for every client.
    let style = if ask.zone.is_some() { JsonStyle::Old } else { ask.style };
    if let Some(zone) = ask.zone {
        entries.retain(|entry| entry.is_in(zone));
    }
    let mut writer = Writer::new(style, 160 + 240 * entries.len());
    writer.object(|w| write(w, table, topic, &entries));
    Some(writer.finish())
}

fn entry<'a>(
    table: &'a RouteInfo,
    broker: &'a Name,
    queues: QueueConfig,
    acting_master: bool,
) -> RouteEntry<'a> {
    let group = table.group(broker);
    let brokers = match group {
        Some(group) if acting_master && group.acting_master && queues.perm & PERM_WRITE == 0 => {
            with_acting_master(group)
        }
        Some(group) => Cow::Borrowed(&*group.brokers),
        None => Cow::Borrowed(&[][..]),
    };
    RouteEntry { broker, queues, group, brokers }
}

/// A broker name without a master shows its lowest id as the master, so that clients go on consuming.
fn with_acting_master(group: &BrokerData) -> Cow<'_, [(i64, Name)]> {
    if group.brokers.iter().any(|(id, _)| *id == MASTER_ID) {
        return Cow::Borrowed(&*group.brokers);
    }
    // In id order: the first is the lowest.
    let mut brokers = group.brokers.to_vec();
    if let Some((id, _)) = brokers.first_mut() {
        *id = MASTER_ID;
    }
    brokers.sort_by_key(|(id, _)| *id);
    Cow::Owned(brokers)
}

impl RouteEntry<'_> {
    /// Whether a route for one zone shows it: it is in that zone, it has no master (then a client must use the slaves,
    /// wherever they are), or it is not registered.
    fn is_in(&self, zone: &str) -> bool {
        let Some(group) = self.group else { return true };
        let same_zone = group.zone.as_deref().is_some_and(|own| own.to_lowercase() == zone.to_lowercase());
        same_zone || !self.brokers.iter().any(|(id, _)| *id == MASTER_ID)
    }
}

fn write(w: &mut Writer, table: &RouteInfo, topic: &str, entries: &[RouteEntry<'_>]) {
    let registered = || entries.iter().filter_map(|entry| entry.group.map(|group| (entry, group)));
    w.key("brokerDatas")
        .list(registered(), |w, (entry, group)| broker_data(w, entry.broker, group, &entry.brokers));
    w.key("filterServerTable").object(|w| {
        for (_, group) in registered() {
            filter_servers(w, table, group);
        }
    });
    let order_conf = table.settings().order_message_enable.then(|| table.kv(ORDER_TOPIC_NAMESPACE, topic));
    if let Some(conf) = order_conf.flatten() {
        w.key("orderTopicConf").text(conf);
    }
    w.key("queueDatas").list(entries, queue_data);
    if let Some(mappings) = table.static_topic(topic) {
        w.key("topicQueueMappingByBroker").object(|w| {
            for (broker, info) in mappings {
                w.text_key(broker);
                static_topic(w, info);
            }
        });
    }
}

fn filter_servers(w: &mut Writer, table: &RouteInfo, group: &BrokerData) {
    for (_, address) in group.brokers.iter() {
        let key = BrokerKey { cluster: group.cluster.clone(), address: address.clone() };
        if let Some(servers) = table.filter_servers(&key) {
            w.text_key(address).list(servers.iter(), |w, server| w.text(server));
        }
    }
}

fn queue_data(w: &mut Writer, entry: &RouteEntry<'_>) {
    w.object(|w| {
        w.key("brokerName").text(entry.broker);
        w.key("perm").int(entry.queues.perm);
        w.key("readQueueNums").int(entry.queues.read);
        w.key("topicSysFlag").int(entry.queues.sys_flag);
        w.key("writeQueueNums").int(entry.queues.write);
    });
}

fn static_topic(w: &mut Writer, info: &StaticTopicInfo) {
    w.object(|w| {
        if let Some(broker) = &info.broker {
            w.key("bname").text(broker);
        }
        if let Some(ids) = &info.current_ids {
            w.key("currIdMap").object(|w| {
                for (logical, physical) in ids {
                    w.int_key((*logical).into()).int(*physical);
                }
            });
        }
        w.key("dirty").boolean(info.dirty);
        w.key("epoch").int(info.epoch);
        if let Some(scope) = &info.scope {
            w.key("scope").text(scope);
        }
        if let Some(topic) = &info.topic {
            w.key("topic").text(topic);
        }
        w.key("totalQueues").int(info.total_queues);
    });
}
