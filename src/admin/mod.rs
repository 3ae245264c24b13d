//! The HTTP port: health, readiness, metrics and the JSON API. For operators and their tools; clients and brokers
//! never need it.

pub mod api;
pub mod history;
mod metrics;
mod routes;

use crate::run::Running;
use tokio::net::TcpListener;

/// Answers as long as the node lives.
pub(crate) async fn serve(listener: TcpListener, running: Running) {
    if let Err(error) = axum::serve(listener, routes::router(running)).await {
        tracing::error!(%error, "the HTTP port is no longer served");
    }
}
