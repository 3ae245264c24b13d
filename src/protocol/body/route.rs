//! Where a topic is: the body of GET_ROUTEINFO_BY_TOPIC.

use super::ORDER_TOPIC_NAMESPACE;
use super::brokers::broker_data;
use super::writer::Writer;
use crate::protocol::{GetRoute, JsonStyle};
use bytes::Bytes;
use std::borrow::Cow;
use storage::RouteInfo;
use storage::command::{Name, PERM_WRITE, QueueConfig, StaticTopicInfo};
use storage::route_info::{BrokerData, BrokerKey};

/// Topics that brokers use to find their own group: these want real ids.
const SYNC_MEMBERS_PREFIX: &str = "rmq_sys_SYNC_BROKER_MEMBER_";
/// The master's broker id.
const MASTER_ID: i64 = 0;

/// A broker name of the route.
struct Shown<'a> {
    broker: &'a Name,
    queues: QueueConfig,
    /// `None` when the name has queues but is not registered.
    group: Option<&'a BrokerData>,
    /// Ids and addresses as they are shown.
    brokers: Cow<'a, [(i64, Name)]>,
}

/// Writes a topic's route; `None` when the topic is unknown, or none of its brokers is.
#[must_use]
pub fn route(table: &RouteInfo, ask: &GetRoute<'_>) -> Option<Bytes> {
    let topic = ask.topic?;
    let queues = &table.topic(topic)?.queues;
    let acting_master = table.settings().support_acting_master && !topic.starts_with(SYNC_MEMBERS_PREFIX);
    let mut shown: Vec<Shown<'_>> =
        queues.iter().map(|(broker, queues)| show(table, broker, *queues, acting_master)).collect();
    if shown.iter().all(|one| one.group.is_none()) {
        return None;
    }
    // A filtered route passes through Java's default writer once more: it has the old style for every client.
    let style = if ask.zone.is_some() { JsonStyle::Old } else { ask.style };
    if let Some(zone) = ask.zone {
        shown.retain(|one| one.is_near(zone));
    }
    let mut writer = Writer::new(style, 160 + 240 * shown.len());
    writer.object(|w| write(w, table, topic, &shown));
    Some(writer.finish())
}

fn show<'a>(table: &'a RouteInfo, broker: &'a Name, queues: QueueConfig, acting_master: bool) -> Shown<'a> {
    let group = table.group(broker);
    let brokers = match group {
        Some(group) if acting_master && group.acting_master && queues.perm & PERM_WRITE == 0 => {
            with_acting_master(group)
        }
        Some(group) => Cow::Borrowed(&*group.brokers),
        None => Cow::Borrowed(&[][..]),
    };
    Shown { broker, queues, group, brokers }
}

/// A group without a master shows its lowest id as the master's, so that clients go on consuming.
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

impl Shown<'_> {
    /// Whether it stays in a route for one zone: it is of that zone, has no master (then a client has to go to the
    /// slaves, wherever they are), or is not registered.
    fn is_near(&self, zone: &str) -> bool {
        let Some(group) = self.group else { return true };
        let same_zone = group.zone.as_deref().is_some_and(|own| own.to_lowercase() == zone.to_lowercase());
        same_zone || !self.brokers.iter().any(|(id, _)| *id == MASTER_ID)
    }
}

fn write(w: &mut Writer, table: &RouteInfo, topic: &str, shown: &[Shown<'_>]) {
    let known = || shown.iter().filter_map(|one| one.group.map(|group| (one, group)));
    w.key("brokerDatas").list(known(), |w, (one, group)| broker_data(w, one.broker, group, &one.brokers));
    w.key("filterServerTable").object(|w| {
        for (_, group) in known() {
            filter_servers(w, table, group);
        }
    });
    let order_conf = table.settings().order_message_enable.then(|| table.kv(ORDER_TOPIC_NAMESPACE, topic));
    if let Some(conf) = order_conf.flatten() {
        w.key("orderTopicConf").text(conf);
    }
    w.key("queueDatas").list(shown, queue_data);
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

fn queue_data(w: &mut Writer, one: &Shown<'_>) {
    w.object(|w| {
        w.key("brokerName").text(one.broker);
        w.key("perm").int(one.queues.perm);
        w.key("readQueueNums").int(one.queues.read);
        w.key("topicSysFlag").int(one.queues.sys_flag);
        w.key("writeQueueNums").int(one.queues.write);
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
