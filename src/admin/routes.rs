//! The paths of the HTTP port and their handlers.

use super::api::{self, MemberChangeRequest, MemberView, Readiness, StatusView};
use super::history::HistoryView;
use super::metrics;
use super::places::Places;
use crate::node::RunningNode;
use axum::Json;
use axum::Router;
use axum::extract::{ConnectInfo, FromRef, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use raft::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use storage::RouteInfo;
use tokio::time::Instant;

/// How long a transfer of leadership may take.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a change of the members may take: a new node has to catch up first.
const MEMBERS_TIMEOUT: Duration = Duration::from_secs(110);

/// What the handlers serve from.
#[derive(Clone)]
struct HttpPort {
    running: RunningNode,
    places: Arc<Places>,
}

impl FromRef<HttpPort> for RunningNode {
    fn from_ref(port: &HttpPort) -> Self {
        port.running.clone()
    }
}

pub(super) fn router(running: RunningNode, places: Arc<Places>) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/api/v1/status", get(status))
        .route("/api/v1/brokers", get(brokers))
        .route("/api/v1/history", get(history))
        .route("/api/v1/kv", get(kv))
        .route("/api/v1/members", post(members))
        .route("/api/v1/transfer", post(transfer))
        .with_state(HttpPort { running, places })
}

/// The process runs. The check does not depend on a leader: restarting the survivors of a lost majority would heal
/// nothing.
async fn livez() -> &'static str {
    "alive\n"
}

async fn readyz(State(running): State<RunningNode>) -> Response {
    let readiness = Readiness::of(&running);
    if readiness.ready {
        let text =
            if readiness.stale { "ready (without a leader: responses may be stale)\n" } else { "ready\n" };
        return text.into_response();
    }
    not_ready(&readiness)
}

fn not_ready(readiness: &Readiness) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", readiness.reason)).into_response()
}

async fn metrics(State(port): State<HttpPort>) -> Response {
    match metrics::text(port.running, port.places) {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

#[derive(Debug, Deserialize)]
struct StatusQuery {
    #[serde(default)]
    hash: bool,
}

async fn status(State(running): State<RunningNode>, Query(query): Query<StatusQuery>) -> Response {
    // One table for the whole response, so that hash and revision belong together.
    let table = running.node.table();
    let guard = running.liveness.totals().guard;
    let mut view = StatusView::new(&running.node.status(), &Readiness::of(&running), guard, &table);
    if query.hash {
        // Hashing a large table takes long.
        match tokio::task::spawn_blocking(move || table.state_hash().total).await {
            Ok(hash) => view.state_hash = Some(format!("{hash:032x}")),
            Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    }
    Json(view).into_response()
}

/// For the leader's answer to the question for idle times.
const IDLE_TIMES_WITHIN: Duration = Duration::from_secs(1);

async fn brokers(State(running): State<RunningNode>) -> Response {
    let idle = running.liveness.idle_times(Instant::now() + IDLE_TIMES_WITHIN).await.idle_ms;
    Json(api::brokers(&running.node.table(), |broker| idle.get(broker).copied())).into_response()
}

/// Records that `/api/v1/history` returns unless the request names another number.
const HISTORY_LIMIT: usize = 100;

#[derive(Debug, Deserialize)]
struct HistoryQuery {
    /// A topic, a broker name, or a broker's `ip:port`.
    about: String,
    limit: Option<usize>,
}

async fn history(State(running): State<RunningNode>, Query(query): Query<HistoryQuery>) -> Response {
    // A table that is behind would show names as unknown.
    let readiness = Readiness::of(&running);
    if !readiness.ready {
        return not_ready(&readiness);
    }
    let limit = query.limit.unwrap_or(HISTORY_LIMIT);
    Json(HistoryView::new(&running.node.table(), &query.about, limit)).into_response()
}

/// Namespaces with their entries; null values are left out, as in every other list.
fn kv_view(table: &RouteInfo) -> BTreeMap<&str, BTreeMap<&str, &str>> {
    let mut view = BTreeMap::new();
    for (namespace, keys) in table.kv_namespaces() {
        let entries = keys.iter().filter_map(|(key, value)| Some((&**key, &**value.as_ref()?)));
        view.insert(&**namespace, entries.collect());
    }
    view
}

async fn kv(State(running): State<RunningNode>) -> Response {
    Json(kv_view(&running.node.table())).into_response()
}

async fn members(
    State(running): State<RunningNode>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Json(request): Json<MemberChangeRequest>,
) -> Response {
    // The leader logs the outcome.
    tracing::info!(%peer, ?request, "asked to change the members");
    match running.node.change_members(request.into(), Instant::now() + MEMBERS_TIMEOUT).await {
        Ok(()) => Json(running.node.status().members.iter().map(MemberView::new).collect::<Vec<_>>())
            .into_response(),
        Err(error) => {
            (StatusCode::CONFLICT, format!("the members were not changed: {error}\n")).into_response()
        }
    }
}

#[derive(Debug, Deserialize)]
struct TransferRequest {
    to: Option<NodeId>,
}

#[derive(Debug, Serialize)]
struct TransferResponse {
    leader: NodeId,
}

async fn transfer(
    State(running): State<RunningNode>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Json(request): Json<TransferRequest>,
) -> Response {
    tracing::info!(%peer, to = ?request.to, "asked to transfer leadership");
    match running.node.transfer(request.to, Instant::now() + TRANSFER_TIMEOUT).await {
        Ok(leader) => Json(TransferResponse { leader }).into_response(),
        Err(error) => {
            (StatusCode::CONFLICT, format!("leadership was not transferred: {error}\n")).into_response()
        }
    }
}
