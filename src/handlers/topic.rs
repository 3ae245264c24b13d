//! Topics: lists (206, 224, 304, 311, 312, 313), deletion (216) and registration of one (217).

use super::{Plan, ReplyShape};
use crate::protocol::{DeleteTopic, RegisterTopic, Reply, TopicFilter, body, remarks};
use std::collections::BTreeSet;
use storage::RouteInfo;
use storage::command::Change;

/// `topicSysFlag`: the topic is of a unit.
const UNIT: i32 = 1;
/// `topicSysFlag`: the topic has subscriptions of a unit.
const UNIT_SUBSCRIPTION: i32 = 1 << 1;

/// GET_ALL_TOPIC_LIST_FROM_NAMESERVER and the three lists of unit topics.
#[must_use]
pub fn list(filter: TopicFilter, table: &RouteInfo) -> Reply {
    let settings = table.settings();
    let enabled = match filter {
        TopicFilter::All => settings.enable_all_topic_list,
        _ => settings.enable_topic_list,
    };
    if !enabled {
        return Reply::error(remarks::DISABLED);
    }
    let is_wanted = |flag: i32| match filter {
        TopicFilter::All => true,
        TopicFilter::Unit => flag & UNIT != 0,
        TopicFilter::UnitSubscription => flag & UNIT_SUBSCRIPTION != 0,
        TopicFilter::UnitSubscriptionOnly => flag & UNIT_SUBSCRIPTION != 0 && flag & UNIT == 0,
    };
    // As in Java, the flag of one broker stands for the topic: here of the first in name order.
    let wanted = table.topics().filter(|(_, topic)| {
        filter == TopicFilter::All
            || topic.queues.first().is_some_and(|(_, queues)| is_wanted(queues.sys_flag))
    });
    Reply::with_body(body::topic_list(wanted.map(|(name, _)| &**name), None))
}

/// GET_TOPICS_BY_CLUSTER.
#[must_use]
pub fn list_of_cluster(cluster: Option<&str>, table: &RouteInfo) -> Reply {
    if !table.settings().enable_topic_list {
        return Reply::error(remarks::DISABLED);
    }
    let brokers = table.clusters().find(|(name, _)| cluster == Some(&***name)).map(|(_, brokers)| brokers);
    let topics: BTreeSet<&str> = brokers
        .into_iter()
        .flat_map(|brokers| brokers.iter())
        .filter_map(|broker| table.topics_of(broker))
        .flat_map(|topics| topics.iter().map(|topic| &**topic))
        .collect();
    Reply::with_body(body::topic_list(topics, None))
}

/// GET_SYSTEM_TOPIC_LIST_FROM_NS: the names of clusters and brokers, which are topics too, and the address of a broker
/// that has them.
#[must_use]
pub fn list_system(table: &RouteInfo) -> Reply {
    let clusters = table.clusters().map(|(name, _)| &**name);
    let names: BTreeSet<&str> = clusters.chain(table.groups().map(|(name, _)| &**name)).collect();
    let address = table.groups().find_map(|(_, group)| group.brokers.first()).map(|(_, address)| &**address);
    Reply::with_body(body::topic_list(names, address))
}

/// REGISTER_TOPIC_IN_NAMESRV.
#[must_use]
pub fn register(ask: RegisterTopic<'_>) -> Plan<'static> {
    let Some(topic) = ask.topic.filter(|_| !ask.queues.is_empty()) else {
        return Plan::Reply(Reply::success());
    };
    let change = storage::command::RegisterTopic { topic: topic.into(), queues: ask.queues };
    Plan::Propose(Change::RegisterTopic(change), ReplyShape::Plain)
}

/// DELETE_TOPIC_IN_NAMESRV.
#[must_use]
pub fn delete(ask: &DeleteTopic<'_>) -> Plan<'static> {
    let Some(topic) = ask.topic else { return Plan::Reply(Reply::success()) };
    let change = storage::command::DeleteTopic { topic: topic.into(), cluster: ask.cluster.map(Into::into) };
    Plan::Propose(Change::DeleteTopic(change), ReplyShape::Plain)
}
