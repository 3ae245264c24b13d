//! The RocketMQ port: sockets in, frames out.
//!
//! - [`Server`] accepts connections and stops. [`connection`] is one task per connection: it decodes requests, answers
//!   look-ups at once, and writes once per buffer. [`worker`] carries out the requests that have to wait.
//! - [`admission`] is the one place that admits a connection or a request, [`socket`] the one that sets a socket up.

mod admission;
mod connection;
mod counters;
mod limits;
mod message;
mod options;
mod registry;
mod repeated_heartbeat;
mod shared;
mod socket;
mod worker;

pub use counters::{Counters, PerCode};
pub use limits::{DeadPeer, Limits};
pub use options::ServerOptions;
pub use socket::ClientStream;

use crate::liveness::SessionId;
use crate::service::Service;
use admission::Admission;
use message::CloseReason;
use registry::Registry;
use shared::{Shared, Warnings};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A server on one port. A cheap handle: clones are the same server.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

/// Pause after an accept that failed (no file descriptors, for example).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a stopping server waits for its connections to close.
const CLOSE_WAIT: Duration = Duration::from_millis(500);
/// How often a removed node closes its connections.
const CLOSE_REMOVED_INTERVAL: Duration = Duration::from_secs(10);
/// How often a draining server looks at its requests in flight.
const DRAIN_INTERVAL: Duration = Duration::from_millis(5);

impl Server {
    /// Makes a server that carries its requests out by `service`.
    #[must_use]
    pub fn new(service: Arc<Service>, options: ServerOptions) -> Self {
        let counters = Arc::new(Counters::default());
        let admission = Admission::new(Arc::new(options.limits.clone()), Arc::clone(&counters));
        let shared = Shared {
            service,
            options,
            counters,
            admission,
            registry: Registry::default(),
            next_session: AtomicU64::new(1),
            warnings: Warnings::default(),
        };
        Self { shared: Arc::new(shared), tasks: TaskTracker::new(), stopping: CancellationToken::new() }
    }

    /// Counters for metrics.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.shared.counters
    }

    /// Connections that it serves at one time.
    #[must_use]
    pub fn connections_max(&self) -> usize {
        self.shared.options.limits.connections
    }

    /// Accepts connections until [`Server::stop`]. Closes the connections that `expired` names, and all connections
    /// once this node is removed from its cluster.
    pub async fn run(&self, listener: TcpListener, expired: mpsc::UnboundedReceiver<SessionId>) {
        tokio::select! {
            biased;
            () = self.accept_all(listener, expired) => {}
            () = self.close_connections_once_removed() => {}
        }
    }

    async fn accept_all(&self, listener: TcpListener, mut expired: mpsc::UnboundedReceiver<SessionId>) {
        loop {
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => return,
                Some(session) = expired.recv() => self.expired(session),
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => match socket::set_up(&stream) {
                        Ok(()) => self.take(stream, peer),
                        Err(error) => tracing::debug!(%peer, %error, "connection ended at once"),
                    },
                    Err(error) => self.accept_failed(&error).await,
                },
            }
        }
    }

    /// A client keeps a connection that works, whatever the responses say: only when the server closes it does the
    /// client turn to another node. So the server closes connections again and again: each new one lives for an
    /// interval at most.
    async fn close_connections_once_removed(&self) {
        let mut removed = self.shared.service.removed();
        while removed.wait_for(|removed| *removed).await.is_ok() {
            let open = self.shared.counters.connections_now.get();
            if open > 0 {
                tracing::info!(open, "this node is no member any more: its connections are closed");
            }
            self.shared.registry.close_all(CloseReason::NodeRemoved);
            tokio::time::sleep(CLOSE_REMOVED_INTERVAL).await;
        }
    }

    /// Closes a connection since its broker expired.
    pub fn expired(&self, session: SessionId) {
        self.shared.registry.close(session, CloseReason::BrokerExpired);
    }

    /// Accepts no more connections, waits for the requests in flight, and closes all connections.
    pub async fn stop(&self) {
        self.stopping.cancel();
        let drained = async {
            while self.shared.counters.in_flight_now.get() > 0 {
                tokio::time::sleep(DRAIN_INTERVAL).await;
            }
        };
        if tokio::time::timeout(self.shared.options.limits.drain, drained).await.is_err() {
            let left = self.shared.counters.in_flight_now.get();
            tracing::warn!(left, "stopped with requests in flight");
        }
        self.tasks.close();
        self.shared.registry.close_all(CloseReason::Stopping);
        let _ = tokio::time::timeout(CLOSE_WAIT, self.tasks.wait()).await;
    }

    /// Serves one connection in a task of its own, if the limit allows one more.
    pub fn take(&self, stream: impl ClientStream, peer: SocketAddr) {
        let Some(permit) = self.shared.admission.connection() else {
            if let Some(held_back) = self.shared.warnings.refused.allow() {
                let limit = self.shared.options.limits.connections;
                tracing::warn!(%peer, limit, held_back, "connection refused: too many");
            }
            return;
        };
        let session = SessionId(self.shared.next_session.fetch_add(1, Ordering::Relaxed));
        self.tasks.spawn(connection::serve(Arc::clone(&self.shared), stream, peer, session, permit));
    }

    async fn accept_failed(&self, error: &io::Error) {
        if let Some(held_back) = self.shared.warnings.accept.allow() {
            tracing::warn!(%error, held_back, "no connection could be accepted");
        }
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}
