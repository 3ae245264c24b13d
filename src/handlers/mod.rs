//! The rules of a nameserver. Plain functions: a read gets the tables and returns a reply; a write returns the change
//! to propose and the shape of the reply to its outcome. No Raft, no socket, no clock.
//!
//! One file per family: [`route`], [`broker`], [`topic`], [`kv`], [`settings`]. [`plan()`] and [`read`] call them.

pub mod broker;
mod codes;
pub mod kv;
mod plan;
mod read_context;
pub mod replies;
mod reply_bytes;
pub mod route;
pub mod settings;
pub mod topic;

pub use codes::{CODES, is_from_broker};
pub use plan::Plan;
pub use read_context::ReadContext;
pub use replies::ReplyShape;
pub use reply_bytes::{reads_whole_table, reply_bytes_max};
pub use settings::{JAVA_PATHS, NodeSettings};

use crate::protocol::{Reply, Request, remarks};
use crate::wire::codes::result;
use storage::RouteInfo;

/// What a request needs. Nothing here depends on the tables.
#[must_use]
pub fn plan<'a>(request: Request<'a>, node: &NodeSettings) -> Plan<'a> {
    match request {
        Request::GetRoute(_)
        | Request::GetKv(_)
        | Request::ListKv(_)
        | Request::QueryDataVersion(_)
        | Request::GetMemberGroup(_)
        | Request::GetClusterInfo
        | Request::ListTopics(_)
        | Request::ListClusterTopics(_)
        | Request::ListSystemTopics
        | Request::GetConfig => Plan::Read(request),
        Request::RegisterBroker(header) => Plan::Register(header),
        Request::BrokerHeartbeat(_) => Plan::Reply(Reply::success()),
        Request::UnregisterBroker(ask) => broker::unregister(&ask),
        Request::WipeWritePermission(name) => broker::set_write_permission(name, false),
        Request::AddWritePermission(name) => broker::set_write_permission(name, true),
        Request::RegisterTopic(ask) => topic::register(ask),
        Request::DeleteTopic(ask) => topic::delete(&ask),
        Request::PutKv(ask) => kv::put(&ask),
        Request::DeleteKv(ask) => kv::delete(&ask),
        Request::UpdateConfig(properties) => settings::update(properties, node),
        Request::Unsupported(code) => {
            Plan::Reply(Reply::refused(result::REQUEST_CODE_NOT_SUPPORTED, remarks::not_supported(code)))
        }
    }
}

/// Carries out a read. A request that is no read gets the reply "not supported"; [`plan()`] never returns it as a read.
#[must_use]
pub fn read(request: &Request<'_>, context: ReadContext<'_>) -> Reply {
    match request {
        Request::GetRoute(ask) => route::get(ask, context),
        Request::GetKv(ask) => kv::get(ask, context.table),
        Request::ListKv(namespace) => kv::list(*namespace, context.table),
        Request::QueryDataVersion(ask) => broker::query_data_version(ask, context),
        Request::GetMemberGroup(ask) => broker::member_group(ask, context.table),
        Request::GetClusterInfo => broker::cluster_info(context.table),
        Request::ListTopics(filter) => topic::list(*filter, context.table),
        Request::ListClusterTopics(cluster) => topic::list_of_cluster(*cluster, context.table),
        Request::ListSystemTopics => topic::list_system(context.table),
        Request::GetConfig => settings::get(context.table, context.node),
        _ => Reply::refused(result::REQUEST_CODE_NOT_SUPPORTED, remarks::not_supported(-1)),
    }
}

/// Whether the reply to a read says that what was asked for does not exist.
#[must_use]
pub fn denies(request: &Request<'_>, reply: &Reply, table: &RouteInfo) -> bool {
    match request {
        // An empty group: a broker that asks would believe that it is alone.
        Request::GetMemberGroup(ask) => ask.broker.is_none_or(|broker| table.group(broker).is_none()),
        _ => matches!(reply.code, result::TOPIC_NOT_EXIST | result::QUERY_NOT_FOUND),
    }
}
