//! Carries requests out: reads the tables, waits for a read barrier, proposes. The only way of a request to Raft.
//!
//! - [`Service::begin`] takes a request, and finishes it at once if the tables of this node suffice.
//! - `reader` does the rest of a read, `proposer` proposes a write, `registration` has the stages of REGISTER_BROKER.
//! - `readiness` decides whether this node may answer look-ups.

mod broker_key;
mod options;
mod progress;
mod proposer;
mod reader;
mod readiness;
mod registration;
mod revision;
mod session;

pub use options::ServiceOptions;
pub(crate) use progress::{Progress, Work};
pub use readiness::{ReadinessOptions, Ready};
pub use registration::RegistrationCounters;
pub(crate) use session::Session;

use crate::budget::Budgets;
use crate::counter::Counter;
use crate::handlers::{self, NodeSettings, Plan, ReplyShape, replies};
use crate::liveness::{ClosedBy, Liveness, SessionId, SessionsFull, Strength};
use crate::protocol::registration::RegistrationHeader;
use crate::protocol::{ReadMode, ReadOptions, Reply, Request};
use crate::route_cache::RouteCache;
use crate::wire::RemotingCommand;
use broker_key::is_too_long;
use proposer::Proposer;
use raft::Node;
use reader::{DelayedRead, Reader};
use readiness::Readiness;
use registration::{Arrival, Registrar};
use revision::with_revision;
use std::sync::Arc;
use storage::RouteInfo;
use storage::command::Change;
use storage::route_info::BrokerKey;
use storage::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::Instant;

/// Carries requests out on one node.
pub struct Service {
    node: Node,
    liveness: Liveness,
    options: ServiceOptions,
    readiness: Arc<Readiness>,
    reader: Arc<Reader>,
    proposer: Arc<Proposer>,
    registrar: Arc<Registrar>,
    budgets: Arc<Budgets>,
    /// Outcomes of registrations.
    pub registrations: Arc<RegistrationCounters>,
    /// BROKER_HEARTBEAT requests of brokers that are not in the table of this node.
    pub heartbeats_unknown: Counter,
}

impl Service {
    /// Makes the service. [`Service::follow`] must run beside it.
    #[must_use]
    pub fn new(
        node: Node,
        liveness: Liveness,
        runtime: Arc<dyn Runtime>,
        settings: NodeSettings,
        options: ServiceOptions,
    ) -> Self {
        let readiness = Arc::new(Readiness::default());
        let proposer = Arc::new(Proposer::new(node.clone(), options.node_id, runtime));
        let registrations = Arc::new(RegistrationCounters::default());
        let budgets = Arc::new(Budgets::new(&options.budgets));
        let registrar = Registrar::new(
            node.clone(),
            liveness.clone(),
            Arc::clone(&proposer),
            options.registration,
            Arc::clone(&budgets),
            Arc::clone(&registrations),
        );
        let reader = Reader {
            node: node.clone(),
            liveness: liveness.clone(),
            settings,
            readiness: Arc::clone(&readiness),
            routes: RouteCache::new(options.route_cache_bytes),
            budgets: Arc::clone(&budgets),
            started: Instant::now(),
        };
        Self {
            node,
            liveness,
            options,
            readiness,
            reader: Arc::new(reader),
            proposer,
            registrar: Arc::new(registrar),
            budgets,
            registrations,
            heartbeats_unknown: Counter::default(),
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

    /// Whether this node was removed from its cluster, as it changes.
    #[must_use]
    pub fn removed(&self) -> watch::Receiver<bool> {
        self.readiness.removed()
    }

    /// The node stops: from now on look-ups get the reply "not ready", and writes are refused.
    pub fn stop(&self) {
        self.readiness.stop();
    }

    /// What the connections of clients hold together.
    #[must_use]
    pub fn budgets(&self) -> &Arc<Budgets> {
        &self.budgets
    }

    /// Encoded routes.
    #[must_use]
    pub fn routes(&self) -> &RouteCache {
        &self.reader.routes
    }

    /// The tables now.
    pub(crate) fn table(&self) -> Arc<RouteInfo> {
        self.node.table()
    }

    /// Reports to liveness that a connection has ended.
    pub(crate) fn closed(&self, session: SessionId, by: ClosedBy) {
        self.liveness.close(session, by);
    }

    /// Reports a BROKER_HEARTBEAT to liveness.
    pub(crate) fn heartbeat(
        &self,
        session: SessionId,
        broker: &BrokerKey,
        table: &RouteInfo,
    ) -> Result<(), SessionsFull> {
        if table.live(broker).is_none() {
            self.heartbeats_unknown.add_one();
        }
        self.liveness.heartbeat(session, broker, Strength::Weak)
    }

    /// Begins a request, and finishes it if the tables of this node suffice.
    pub(crate) fn begin(
        &self,
        session: &Arc<Session>,
        command: RemotingCommand,
        table: &RouteInfo,
    ) -> Progress {
        let request = match Request::parse(&command) {
            Ok(request) => request,
            Err(reply) => return Progress::Done(reply),
        };
        if let Err(SessionsFull) = self.note_sender(session, &request, table) {
            return Progress::Done(Reply::busy());
        }
        let options = ReadOptions::of(&command);
        match handlers::plan(request, &self.reader.settings) {
            Plan::Reply(reply) => Progress::Done(reply),
            Plan::Read(request) => {
                let mode = options.mode.unwrap_or(self.options.read_mode);
                let large = Reader::is_large(&request, table);
                if mode == ReadMode::Local && !large {
                    return Progress::Done(self.reader.read(&request, options, table, false));
                }
                drop(request);
                let deadline = Instant::now() + self.options.request_deadline;
                let session = Arc::clone(session);
                let read = DelayedRead { session, command, mode, options, deadline, large };
                Progress::Concurrent(Box::pin(Arc::clone(&self.reader).read_later(read)))
            }
            Plan::Propose(..) | Plan::Register(_) if self.readiness.is_stopping() => {
                Progress::Done(Reply::error("the node is stopping"))
            }
            Plan::Propose(change, shape) => self.write(session, change, shape, options),
            Plan::Register(header) => self.register(session, header, command, options),
        }
    }

    fn write(
        &self,
        session: &Arc<Session>,
        change: Change,
        shape: ReplyShape,
        options: ReadOptions,
    ) -> Progress {
        let deadline = Instant::now() + self.options.request_deadline;
        let (proposer, session) = (Arc::clone(&self.proposer), Arc::clone(session));
        let write = async move {
            let reply = match proposer.propose(&session, change, deadline).await {
                Ok(done) => {
                    let reply = replies::of_outcome(&done.outcome, shape);
                    with_revision(reply, options, Some(done.position.index))
                }
                Err(error) => replies::of_propose_error(&error),
            };
            Progress::Done(reply)
        };
        Progress::OrderedUntil(deadline, Box::pin(write))
    }

    fn register(
        &self,
        session: &Arc<Session>,
        header: RegistrationHeader,
        command: RemotingCommand,
        options: ReadOptions,
    ) -> Progress {
        let arrival = Arrival {
            session: Arc::clone(session),
            header,
            body: command.body,
            options,
            deadline: Instant::now() + self.options.registration_deadline,
        };
        registration::begin(&self.registrar, arrival)
    }

    /// A request of a broker is a heartbeat, whatever the reply; an UNREGISTER is counted.
    fn note_sender(
        &self,
        session: &Session,
        request: &Request<'_>,
        table: &RouteInfo,
    ) -> Result<(), SessionsFull> {
        let (cluster, address) = match request {
            Request::UnregisterBroker(_) => {
                session.count_unregister();
                return Ok(());
            }
            Request::BrokerHeartbeat(ask) => (ask.cluster, ask.address),
            Request::QueryDataVersion(ask) => (ask.cluster, ask.address),
            _ => return Ok(()),
        };
        let broker = BrokerKey { cluster: cluster.into(), address: address.into() };
        if is_too_long(&broker) {
            return Ok(());
        }
        match request {
            Request::BrokerHeartbeat(_) => self.heartbeat(session.id, &broker, table),
            _ => self.liveness.heartbeat(session.id, &broker, Strength::Weak),
        }
    }
}
