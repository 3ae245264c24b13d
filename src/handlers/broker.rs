//! Brokers: the reply to their registration (103), unregistration (104), data versions (322), broker names (901, 106)
//! and write permission (205, 327).

use super::{Plan, ReadContext, ReplyShape};
use crate::protocol::{GetMemberGroup, QueryDataVersion, Reply, UnregisterBroker, body, remarks};
use crate::warn_limit::WarnLimit;
use storage::RouteInfo;
use storage::command::{Cause, Change, Name, Removal, RemoveBrokers, SetWritePermission};
use storage::limits::KV_REPLY_BYTES_MAX;
use storage::route_info::{BrokerData, BrokerKey};

/// Id of a master.
const MASTER_ID: i64 = 0;
/// The reply to an accepted registration: a slave gets the addresses of its master, every broker the order-topic KV.
#[must_use]
pub fn registered(table: &RouteInfo, broker: &BrokerKey) -> Reply {
    let mut reply = registration_lost(table);
    let Some(live) = table.live(broker).filter(|live| live.id != MASTER_ID) else { return reply };
    let master = table.group(&live.broker).and_then(BrokerData::master);
    let Some(address) = master.map(Name::clone) else { return reply };
    let key = BrokerKey { cluster: Name::clone(&broker.cluster), address };
    if let Some(master) = table.live(&key) {
        if let Some(ha_address) = &master.ha_address {
            reply = reply.with("haServerAddr", ha_address);
        }
        reply = reply.with("masterAddr", &key.address);
    }
    reply
}

/// The reply to a registration that lost against a higher stateVersion: success without values.
#[must_use]
pub fn registration_lost(table: &RouteInfo) -> Reply {
    let mut reply = Reply::success().with_ext();
    if table.settings().return_order_topic_config_to_broker
        && let Some(namespace) = table.kv_namespace(body::ORDER_TOPIC_NAMESPACE)
    {
        let bytes = table.kv_namespace_bytes(body::ORDER_TOPIC_NAMESPACE);
        if bytes <= KV_REPLY_BYTES_MAX {
            reply.body = body::kv_table(namespace);
        } else {
            warn_of_left_out(bytes);
        }
    }
    reply
}

/// An earlier version has taken more than fits a frame. The registration counts all the same.
fn warn_of_left_out(bytes: usize) {
    static LEFT_OUT: WarnLimit = WarnLimit::new();
    if let Some(held_back) = LEFT_OUT.allow() {
        let namespace = body::ORDER_TOPIC_NAMESPACE;
        tracing::warn!(
            bytes,
            held_back,
            "KV namespace {namespace} is too large for a frame: registrations are answered without it; delete keys"
        );
    }
}

/// UNREGISTER_BROKER. A request that names no broker succeeds and removes none.
#[must_use]
pub fn unregister(ask: &UnregisterBroker<'_>) -> Plan<'static> {
    let (Some(broker), Some(address)) = (ask.broker, ask.address) else {
        return Plan::Reply(Reply::success());
    };
    let removal = Removal {
        cluster: ask.cluster.unwrap_or_default().into(),
        broker: broker.into(),
        address: address.into(),
        incarnation: None,
        cause: Cause::Asked,
    };
    let change = Change::RemoveBrokers(RemoveBrokers { brokers: vec![removal], decided_in_term: None });
    Plan::Propose(change, ReplyShape::Plain)
}

/// QUERY_DATA_VERSION. "Changed" makes the broker register. So a broker gets it too when the leader reported that it is
/// not registered, and when it is registered under another name or id.
#[must_use]
pub fn query_data_version(ask: &QueryDataVersion<'_>, context: ReadContext<'_>) -> Reply {
    let key = BrokerKey { cluster: ask.cluster.into(), address: ask.address.into() };
    let Some(live) = context.table.live(&key) else {
        return Reply::success().with("changed", "true");
    };
    let same = ask.data_version == Some(live.data_version)
        && ask.broker.is_none_or(|name| *name == *live.broker)
        && ask.id.is_none_or(|id| id == live.id)
        && !context.broker_not_registered;
    let changed = if same { "false" } else { "true" };
    Reply { body: body::data_version(live.data_version), ..Reply::success().with("changed", changed) }
}

/// GET_BROKER_MEMBER_GROUP.
#[must_use]
pub fn member_group(ask: &GetMemberGroup<'_>, table: &RouteInfo) -> Reply {
    let body = body::member_group(table, ask.cluster, ask.broker);
    Reply { remark: Some(remarks::NO_RESPONSE_CODE.into()), ..Reply::with_body(body) }
}

/// GET_BROKER_CLUSTER_INFO.
#[must_use]
pub fn cluster_info(table: &RouteInfo) -> Reply {
    Reply::with_body(body::cluster_info(table))
}

/// WIPE_WRITE_PERM_OF_BROKER and ADD_WRITE_PERM_OF_BROKER.
#[must_use]
pub fn set_write_permission(broker: Option<&str>, writable: bool) -> Plan<'static> {
    let field = if writable { "addTopicCount" } else { "wipeTopicCount" };
    let Some(broker) = broker else { return Plan::Reply(Reply::success().with(field, "0")) };
    let change = Change::SetWritePermission(SetWritePermission { broker: broker.into(), writable });
    Plan::Propose(change, ReplyShape::TopicCount(field))
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::command::{Origin, PutKv, Registration};
    use storage::{Command, LogId};

    /// An earlier version took values of any size.
    #[test]
    fn a_registration_is_answered_though_the_order_topics_fit_no_frame() {
        let mut table = RouteInfo::default();
        let mut index = 0;
        let mut apply = |table: &mut RouteInfo, change| {
            index += 1;
            table.apply_entry(LogId { term: 1, index }, &[Command { origin: Origin::default(), change }]);
        };
        let key = BrokerKey { cluster: "c".into(), address: "a:1".into() };
        let master = Registration::of_master("c".into(), "b".into(), "a:1".into());
        apply(&mut table, Change::RegisterBroker(Box::new(master)));
        let put = |key: &str, bytes: usize| {
            let value = Some("v".repeat(bytes).into());
            Change::PutKv(PutKv { namespace: body::ORDER_TOPIC_NAMESPACE.into(), key: key.into(), value })
        };
        apply(&mut table, put("k1", 9 << 20));
        assert!(registered(&table, &key).body.len() > 9 << 20);
        apply(&mut table, put("k2", 9 << 20));
        let reply = registered(&table, &key);
        assert_eq!((reply.code, reply.body.len()), (0, 0), "a registration, and no frame that nobody takes");
        let list = crate::handlers::kv::list(Some(body::ORDER_TOPIC_NAMESPACE), &table);
        assert_eq!((list.code, list.body.len()), (1, 0), "{:?}", list.remark);
        apply(&mut table, put("k2", 1));
        assert!(registered(&table, &key).body.len() > 9 << 20);
    }
}
