//! The RocketMQ port: sockets in, frames out.
//!
//! - [`Server`] listens and stops; [`connection`] is one task per connection that cuts the bytes, answers look-ups
//!   at once and writes once per buffer; [`worker`] carries out what has to wait.
//! - [`admission`] is the one place that lets a connection or a request in, [`socket`] the one that sets a socket up.
//! - [`notice`] sends what brokers are told unasked.

mod admission;
mod connection;
mod counters;
mod heartbeat;
mod limits;
pub mod notice;
mod registry;
mod socket;
mod worker;

pub use counters::{Counter, Counters, PerCode};
pub use limits::{DeadPeer, Limits};
pub use socket::ClientStream;

use crate::liveness::SessionId;
use crate::service::Service;
use crate::warn_limit::WarnLimit;
use crate::wire::Serialization;
use admission::Admission;
use registry::{Registry, Why};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Settings of a server.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// What peers may do.
    pub limits: Limits,
    /// How vanished brokers are found out.
    pub dead_peer: DeadPeer,
    /// How answers and notices are written, whatever the request's serialization.
    pub serialization: Serialization,
}

/// What all connections share.
struct Shared {
    service: Arc<Service>,
    options: ServerOptions,
    counters: Arc<Counters>,
    admission: Admission,
    registry: Registry,
    sessions: AtomicU64,
    warnings: Warnings,
}

/// Log lines that peers can cause.
#[derive(Debug, Default)]
struct Warnings {
    broken_frame: WarnLimit,
    tls: WarnLimit,
    refused: WarnLimit,
    busy: WarnLimit,
    slow_reader: WarnLimit,
    accept: WarnLimit,
}

/// A server on one port. A cheap handle: clones are the same server.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

/// After an accept that failed (no file descriptors, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long connections have to end once they are told to.
const CLOSE_WAIT: Duration = Duration::from_millis(500);
/// Between two times that a removed node closes the connections that it has.
const SEND_AWAY_EVERY: Duration = Duration::from_secs(10);
/// Between two looks at what is in flight while draining.
const DRAIN_LOOK: Duration = Duration::from_millis(5);

impl Server {
    /// Makes it. `expired` names connections to close since their broker expired.
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
            sessions: AtomicU64::new(1),
            warnings: Warnings::default(),
        };
        Self { shared: Arc::new(shared), tasks: TaskTracker::new(), stopping: CancellationToken::new() }
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.shared.counters
    }

    /// Takes connections until [`Server::stop`], and closes those that `expired` names; all of them when this node is
    /// removed from its cluster.
    pub async fn run(&self, listener: TcpListener, expired: mpsc::UnboundedReceiver<SessionId>) {
        tokio::select! {
            biased;
            () = self.take_all(listener, expired) => {}
            () = self.send_away_once_removed() => {}
        }
    }

    async fn take_all(&self, listener: TcpListener, mut expired: mpsc::UnboundedReceiver<SessionId>) {
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

    /// A client keeps a connection that works, whatever is answered over it: only when it is closed does the client turn
    /// to another node. So who comes later is sent away too, after an answer or two.
    async fn send_away_once_removed(&self) {
        let mut removed = self.shared.service.removed();
        while removed.wait_for(|removed| *removed).await.is_ok() {
            let open = self.shared.counters.connections_now.get();
            if open > 0 {
                tracing::info!(open, "this node is no member any more: its connections are closed");
            }
            self.shared.registry.close_all(Why::Removed);
            tokio::time::sleep(SEND_AWAY_EVERY).await;
        }
    }

    /// Closes a connection since its broker expired.
    pub fn expired(&self, session: SessionId) {
        self.shared.registry.close(session, Why::Expired);
    }

    /// Takes no more connections, waits for answers that are under way, and closes all.
    pub async fn stop(&self) {
        self.stopping.cancel();
        let drained = async {
            while self.shared.counters.in_flight_now.get() > 0 {
                tokio::time::sleep(DRAIN_LOOK).await;
            }
        };
        if tokio::time::timeout(self.shared.options.limits.drain, drained).await.is_err() {
            let left = self.shared.counters.in_flight_now.get();
            tracing::warn!(left, "stopped with requests whose answer was still under way");
        }
        self.tasks.close();
        self.shared.registry.close_all(Why::Stopping);
        let _ = tokio::time::timeout(CLOSE_WAIT, self.tasks.wait()).await;
    }

    /// Takes one connection: serves it beside the others, if there is room for it.
    pub fn take(&self, stream: impl ClientStream, peer: SocketAddr) {
        let Some(seat) = self.shared.admission.connection() else {
            if let Some(held_back) = self.shared.warnings.refused.allow() {
                let limit = self.shared.options.limits.connections;
                tracing::warn!(%peer, limit, held_back, "connection refused: too many");
            }
            return;
        };
        let session = SessionId(self.shared.sessions.fetch_add(1, Ordering::Relaxed));
        self.tasks.spawn(connection::serve(Arc::clone(&self.shared), stream, peer, session, seat));
    }

    async fn accept_failed(&self, error: &io::Error) {
        if let Some(held_back) = self.shared.warnings.accept.allow() {
            tracing::warn!(%error, held_back, "no connection could be taken");
        }
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}
