//! The HTTP port: health, readiness, metrics and the JSON API. For operators and their tools; clients and brokers never
//! need it.

pub mod api;
pub mod history;
mod metrics;
mod routes;

use crate::node::RunningNode;
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// Serves HTTP until the task is dropped.
pub(crate) async fn serve(listener: TcpListener, running: RunningNode) {
    let router = routes::router(running).into_make_service_with_connect_info::<SocketAddr>();
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(%error, "the HTTP port is no longer served");
    }
}
