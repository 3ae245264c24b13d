//! The tasks that run as long as the node.

use super::settings_mismatch;
use crate::admin;
use crate::event_log;
use crate::min_broker_id;
use crate::node::{NodeConfig, RunningNode};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// Tasks that end when this is dropped.
pub(super) struct BackgroundTasks {
    _tasks: Vec<AbortOnDropHandle<()>>,
}

impl BackgroundTasks {
    /// Starts them: readiness, notices to brokers, the event log, the check of the settings file, and HTTP.
    pub(super) fn start(running: &RunningNode, config: &NodeConfig, http: Option<TcpListener>) -> Self {
        let service = Arc::clone(&running.service);
        let (counters, serialization) = (Arc::clone(&running.notices), config.server.serialization);
        let (notices, following) = min_broker_id::follow(&running.node, Arc::clone(&counters));
        let mut tasks = vec![
            tokio::spawn(async move { service.follow().await }),
            tokio::spawn(following),
            tokio::spawn(min_broker_id::send_all(
                notices,
                serialization,
                config.notice_connections_max,
                counters,
            )),
            tokio::spawn(event_log::log_events(running.node.clone(), Arc::clone(&running.conflicts))),
            tokio::spawn(event_log::log_kv_sizes(running.node.clone())),
            tokio::spawn(settings_mismatch::warn_once(
                running.node.clone(),
                Arc::clone(&running.service),
                config.bootstrap.clone(),
            )),
        ];
        if let Some(http) = http {
            tasks.push(tokio::spawn(admin::serve(http, running.clone(), config.http_connections_max)));
        }
        Self { _tasks: tasks.into_iter().map(AbortOnDropHandle::new).collect() }
    }
}
