//! Carries requests out: reads the tables, waits for a read barrier, proposes. The only way of a request to Raft.

mod fingerprints;
mod flapping;
mod quarrels;
mod readiness;
mod reading;
mod registration;
mod route_cache;

pub use readiness::{ReadinessOptions, Ready};
pub use route_cache::RouteCache;

use crate::handlers::{self, NodeSettings, Plan, ReadContext, answer};
use crate::liveness::{Heard, Known, Liveness, SessionId};
use crate::protocol::registration::RegistrationLimits;
use crate::protocol::{ReadMode, ReadOptions, Reply, Request};
use crate::server::Counter;
use crate::wire::RemotingCommand;
use fingerprints::Fingerprints;
use flapping::Flapping;
use quarrels::Quarrels;
use raft::{Node, ProposeError, Proposed};
use readiness::Readiness;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use storage::command::{Change, Name, Origin};
use storage::route_info::BrokerKey;
use storage::runtime::Runtime;
use storage::{Command, RouteInfo};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

/// Topics above which a read of the whole table leaves the connections' threads.
const LARGE_TABLE_TOPICS: usize = 4_000;

/// Settings of the service.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// This node's id.
    pub node_id: raft::NodeId,
    /// How a read is answered that does not say it itself: locally, or behind a read barrier.
    pub read_mode: ReadMode,
    /// When this node may answer look-ups.
    pub readiness: ReadinessOptions,
    /// Encoded routes, bytes.
    pub route_cache_bytes: usize,
    /// How much one registration may be.
    pub registration: RegistrationLimits,
    /// A write, and a read that has to wait, is answered within this.
    pub request_deadline: Duration,
    /// A registration is answered within this: brokers wait 24 s.
    pub registration_deadline: Duration,
}

impl ServiceOptions {
    /// The defaults.
    #[must_use]
    pub fn new(node_id: raft::NodeId) -> Self {
        Self {
            node_id,
            read_mode: ReadMode::Local,
            readiness: ReadinessOptions::default(),
            route_cache_bytes: 64 << 20,
            registration: RegistrationLimits::default(),
            request_deadline: Duration::from_millis(2_500),
            registration_deadline: Duration::from_secs(15),
        }
    }
}

/// What came of registrations, for metrics.
#[derive(Debug, Default)]
pub struct RegistrationCounters {
    /// Known by their bytes to change nothing: nothing was parsed.
    pub known_bytes: Counter,
    /// Read, and found to change nothing.
    pub unchanged: Counter,
    /// Proposed as a difference.
    pub differences: Counter,
    /// Proposed whole.
    pub wholes: Counter,
    /// Differences that met another group version and were computed again.
    pub conflicts: Counter,
    /// Lost against a higher stateVersion.
    pub outdated: Counter,
    /// Refused: bad checksum, unreadable, or a first one with a single topic.
    pub refused: Counter,
    /// Not answered with success since no leader confirmed or committed it in time.
    pub no_leader: Counter,
}

/// Cluster name and address of a broker, bytes together. A node tells the others whom it hears: names of any length would
/// let one client fill what it can tell.
const BROKER_NAMES_BYTES_MAX: usize = 1_024;

fn is_too_long(broker: &BrokerKey) -> bool {
    broker.name_bytes() > BROKER_NAMES_BYTES_MAX
}

/// How far a request has come.
pub(crate) enum Progress {
    /// It has its answer.
    Answered(Reply),
    /// Goes on beside the other requests of its connection.
    Beside(Work),
    /// Goes on in the order of its connection's writes, behind those that wait.
    InOrder(Work),
    /// The same, unless those before it take until then: it is then refused, and certainly not carried out.
    InOrderUntil(Instant, Work),
}

/// The rest of a request.
pub(crate) type Work = Pin<Box<dyn Future<Output = Progress> + Send>>;

/// The connection that a request came over.
#[derive(Debug)]
pub(crate) struct Session {
    /// Its number.
    pub(crate) id: SessionId,
    /// Address of the peer.
    pub(crate) peer: Name,
    /// UNREGISTER requests that came over it: a registration that came before one must not undo it.
    leaves: AtomicU64,
}

impl Session {
    pub(crate) fn new(id: SessionId, peer: SocketAddr) -> Self {
        Self { id, peer: peer.to_string().into(), leaves: AtomicU64::new(0) }
    }
}

/// Carries requests out on one node.
pub struct Service {
    node: Node,
    liveness: Liveness,
    runtime: Arc<dyn Runtime>,
    settings: NodeSettings,
    options: ServiceOptions,
    readiness: Readiness,
    prints: Fingerprints,
    /// Registrations that may be read at one time.
    parsing: Semaphore,
    started: Instant,
    /// Encoded routes.
    pub routes: RouteCache,
    /// What came of registrations.
    pub registrations: RegistrationCounters,
    quarrels: Quarrels,
    flapping: Flapping,
}

impl Service {
    /// Makes it. [`Service::follow`] must run beside it.
    #[must_use]
    pub fn new(
        node: Node,
        liveness: Liveness,
        runtime: Arc<dyn Runtime>,
        settings: NodeSettings,
        options: ServiceOptions,
    ) -> Self {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            node,
            liveness,
            runtime,
            settings,
            readiness: Readiness::default(),
            prints: Fingerprints::default(),
            parsing: Semaphore::new(threads.max(2)),
            started: Instant::now(),
            routes: RouteCache::new(options.route_cache_bytes),
            registrations: RegistrationCounters::default(),
            quarrels: Quarrels::default(),
            flapping: Flapping::default(),
            options,
        }
    }

    /// Keeps [`Service::ready`] up to date; runs as long as the service.
    pub async fn follow(&self) {
        self.readiness.follow(&self.node, &self.options.readiness).await;
    }

    /// Whether this node answers look-ups, as it changes.
    #[must_use]
    pub fn ready(&self) -> watch::Receiver<Ready> {
        self.readiness.watch()
    }

    /// Whether this node is no member any more, as it changes.
    #[must_use]
    pub fn removed(&self) -> watch::Receiver<bool> {
        self.readiness.removed()
    }

    /// From now on look-ups are answered "not ready" and writes are refused: the node stops.
    pub fn stop(&self) {
        self.readiness.stop();
    }

    /// The tables now.
    pub(crate) fn table(&self) -> Arc<RouteInfo> {
        self.node.table()
    }

    /// Tells liveness that a connection is over.
    pub(crate) fn closed(&self, session: SessionId, by: crate::liveness::ClosedBy) {
        self.liveness.closed(session, by);
    }

    /// Begins a request, and ends it too if this node's tables are all that it needs.
    pub(crate) fn begin(
        self: &Arc<Self>,
        session: &Arc<Session>,
        command: RemotingCommand,
        table: &RouteInfo,
    ) -> Progress {
        let request = match Request::parse(&command) {
            Ok(request) => request,
            Err(reply) => return Progress::Answered(reply),
        };
        self.hear(session, &request);
        let options = ReadOptions::of(&command);
        match handlers::plan(request, &self.settings) {
            Plan::Answer(reply) => Progress::Answered(reply),
            Plan::Read(request) => {
                let mode = options.mode.unwrap_or(self.options.read_mode);
                let large = handlers::reads_all(&request) && table.topics().len() > LARGE_TABLE_TOPICS;
                if mode == ReadMode::Local && !large {
                    return Progress::Answered(self.read(&request, options, table));
                }
                drop(request);
                let deadline = Instant::now() + self.options.request_deadline;
                let read = Arc::clone(self).read_later(command, mode, options, deadline, large);
                Progress::Beside(Box::pin(read))
            }
            Plan::Propose(..) | Plan::Register if self.readiness.is_stopping() => {
                Progress::Answered(Reply::error("the node is stopping"))
            }
            Plan::Propose(change, after) => {
                let deadline = Instant::now() + self.options.request_deadline;
                let (service, session) = (Arc::clone(self), Arc::clone(session));
                let write = async move {
                    let reply = match service.propose(&session, change, deadline).await {
                        Ok(done) => {
                            let reply = answer::of_outcome(&done.outcome, after);
                            with_revision(reply, options, Some(done.position.index))
                        }
                        Err(error) => answer::of_propose_error(&error),
                    };
                    Progress::Answered(reply)
                };
                Progress::InOrderUntil(deadline, Box::pin(write))
            }
            Plan::Register => {
                let deadline = Instant::now() + self.options.registration_deadline;
                registration::begin(self, session, command, options, deadline)
            }
        }
    }

    /// A broker that shows itself is alive, whatever the answer; one that leaves is noted.
    fn hear(&self, session: &Session, request: &Request<'_>) {
        let (cluster, address) = match request {
            Request::UnregisterBroker(_) => {
                session.leaves.fetch_add(1, Ordering::Relaxed);
                return;
            }
            Request::BrokerHeartbeat(ask) => (ask.cluster, ask.address),
            Request::QueryDataVersion(ask) => (ask.cluster, ask.address),
            _ => return,
        };
        let broker = BrokerKey { cluster: cluster.into(), address: address.into() };
        if !is_too_long(&broker) {
            self.liveness.heard(session.id, &broker, Heard::Heartbeat);
        }
    }

    /// A broker says once more that it lives, and nothing else.
    pub(crate) fn hear_again(&self, session: SessionId, broker: &BrokerKey) {
        self.liveness.heard(session, broker, Heard::Heartbeat);
    }

    fn read(&self, request: &Request<'_>, options: ReadOptions, table: &RouteInfo) -> Reply {
        if self.readiness.get() == Ready::No {
            return answer::not_ready();
        }
        let waits = table.settings().need_wait_for_service;
        let context = ReadContext {
            table,
            routes: &self.routes,
            node: &self.settings,
            uptime: if waits { self.started.elapsed() } else { Duration::MAX },
            broker_denied: self.is_denied(request),
        };
        with_revision(handlers::read(request, context), options, table.revision().map(|id| id.index))
    }

    fn is_denied(&self, request: &Request<'_>) -> bool {
        let Request::QueryDataVersion(ask) = request else { return false };
        let broker = BrokerKey { cluster: ask.cluster.into(), address: ask.address.into() };
        self.liveness.last_word(&broker) == Some(Known::Unknown)
    }

    async fn read_later(
        self: Arc<Self>,
        command: RemotingCommand,
        mode: ReadMode,
        options: ReadOptions,
        deadline: Instant,
        large: bool,
    ) -> Progress {
        let waited = match mode {
            ReadMode::Local => Ok(()),
            ReadMode::MinRevision(revision) => self.node.wait_applied(revision, deadline).await,
            ReadMode::Linearizable => self.node.read_barrier(deadline).await.map(|_| ()),
        };
        if let Err(error) = waited {
            return Progress::Answered(answer::of_read_error(&error));
        }
        let read = move || {
            let request = Request::parse(&command)?;
            Ok(self.read(&request, options, &self.table()))
        };
        // What is small is not worth a thread, and a simulation has only one.
        let reply: Result<Result<Reply, Reply>, _> =
            if large { tokio::task::spawn_blocking(read).await } else { Ok(read()) };
        Progress::Answered(match reply {
            Ok(Ok(reply) | Err(reply)) => reply,
            Err(_) => Reply::error("the read was given up"),
        })
    }

    /// Proposes a change and waits until this node has applied it.
    async fn propose(
        &self,
        session: &Session,
        change: Change,
        deadline: Instant,
    ) -> Result<Proposed, ProposeError> {
        let origin = Origin {
            node: self.options.node_id,
            peer: Name::clone(&session.peer),
            unix_ms: self.runtime.unix_ms(),
        };
        self.node.propose(Command { origin, change }, deadline).await
    }
}

fn with_revision(reply: Reply, options: ReadOptions, revision: Option<u64>) -> Reply {
    if options.wants_revision {
        return reply.with("__REVISION", &revision.unwrap_or(0).to_string());
    }
    reply
}
