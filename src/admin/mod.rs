//! The HTTP port: health, readiness, metrics and the JSON API. For operators and their tools; clients and brokers never
//! need it.
//!
//! [`server`] takes connections within the [`places`] that there are, [`routes`] answers their requests.

pub mod api;
pub mod history;
mod metrics;
mod places;
mod routes;
mod server;

use crate::node::RunningNode;
use places::Places;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Serves HTTP to so many connections at one time, until the task is dropped.
pub(crate) async fn serve(listener: TcpListener, running: RunningNode, connections_max: usize) {
    let places = Places::new(connections_max);
    server::run(listener, routes::router(running, Arc::clone(&places)), places).await;
}
