//! The rules of a nameserver. Plain functions: a read gets the tables and gives a reply, a write gives the change to
//! propose and how its outcome becomes a reply. No Raft, no socket, no clock.
//!
//! One file per family: [`route`], [`broker`], [`topic`], [`kv`], [`settings`].

pub mod answer;
pub mod broker;
pub mod kv;
pub mod route;
pub mod settings;
pub mod topic;

pub use answer::After;
pub use settings::{JAVA_PATHS, NodeSettings};

use crate::protocol::{Reply, Request, remarks};
use crate::service::RouteCache;
use crate::wire::codes::{request as code, result};
use std::time::Duration;
use storage::RouteInfo;
use storage::command::Change;

/// All request codes that a nameserver carries out.
pub const CODES: &[i32] = &[
    code::PUT_KV_CONFIG,
    code::GET_KV_CONFIG,
    code::DELETE_KV_CONFIG,
    code::REGISTER_BROKER,
    code::UNREGISTER_BROKER,
    code::GET_ROUTEINFO_BY_TOPIC,
    code::GET_BROKER_CLUSTER_INFO,
    code::WIPE_WRITE_PERM_OF_BROKER,
    code::GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    code::DELETE_TOPIC_IN_NAMESRV,
    code::REGISTER_TOPIC_IN_NAMESRV,
    code::GET_KVLIST_BY_NAMESPACE,
    code::GET_TOPICS_BY_CLUSTER,
    code::GET_SYSTEM_TOPIC_LIST_FROM_NS,
    code::GET_UNIT_TOPIC_LIST,
    code::GET_HAS_UNIT_SUB_TOPIC_LIST,
    code::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    code::UPDATE_NAMESRV_CONFIG,
    code::GET_NAMESRV_CONFIG,
    code::QUERY_DATA_VERSION,
    code::ADD_WRITE_PERM_OF_BROKER,
    code::GET_BROKER_MEMBER_GROUP,
    code::BROKER_HEARTBEAT,
];

/// What a request needs.
#[derive(Debug)]
pub enum Plan<'a> {
    /// Nothing: this is its answer.
    Answer(Reply),
    /// This node's tables: ask [`read`].
    Read(Request<'a>),
    /// A change of the cluster's state.
    Propose(Change, After),
    /// The stages of a registration.
    Register,
}

/// What a read may look at.
#[derive(Debug, Clone, Copy)]
pub struct ReadContext<'a> {
    /// The tables.
    pub table: &'a RouteInfo,
    /// Encoded routes.
    pub routes: &'a RouteCache,
    /// Settings of this node.
    pub node: &'a NodeSettings,
    /// Since the process started.
    pub uptime: Duration,
    /// The leader said of the broker that asks (QUERY_DATA_VERSION) that it is not in the table.
    pub broker_denied: bool,
}

/// What a request needs. Decides nothing that depends on the tables.
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
        Request::RegisterBroker => Plan::Register,
        Request::BrokerHeartbeat(_) => Plan::Answer(Reply::success()),
        Request::UnregisterBroker(ask) => broker::unregister(&ask),
        Request::WipeWritePermission(name) => broker::set_write_permission(name, false),
        Request::AddWritePermission(name) => broker::set_write_permission(name, true),
        Request::RegisterTopic(ask) => topic::register(ask),
        Request::DeleteTopic(ask) => topic::delete(&ask),
        Request::PutKv(ask) => kv::put(&ask),
        Request::DeleteKv(ask) => kv::delete(&ask),
        Request::UpdateConfig(properties) => settings::update(properties, node),
        Request::Unsupported(code) => {
            Plan::Answer(Reply::refused(result::REQUEST_CODE_NOT_SUPPORTED, remarks::not_supported(code)))
        }
    }
}

/// Answers a read. Requests that are none are answered as unsupported; [`plan`] does not call them reads.
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

/// Whether a read goes over the whole table, so that a large one is better done beside the look-ups.
#[must_use]
pub fn reads_all(request: &Request<'_>) -> bool {
    matches!(
        request,
        Request::ListTopics(_)
            | Request::ListClusterTopics(_)
            | Request::ListSystemTopics
            | Request::GetClusterInfo
            | Request::ListKv(_)
    )
}

/// Requests by which a broker shows itself: from the first one on its connection is watched closely.
#[must_use]
pub fn is_of_broker(request_code: i32) -> bool {
    matches!(request_code, code::REGISTER_BROKER | code::BROKER_HEARTBEAT | code::QUERY_DATA_VERSION)
}
