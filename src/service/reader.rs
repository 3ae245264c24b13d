//! Reads: from the tables of this node, at once or after a read barrier.

use super::progress::Progress;
use super::readiness::{Readiness, Ready};
use super::revision::with_revision;
use super::session::Session;
use crate::budget::{self, Budgets, SMALL_BYTES};
use crate::handlers::{self, NodeSettings, ReadContext, replies};
use crate::liveness::Liveness;
use crate::protocol::{ReadMode, ReadOptions, Reply, Request};
use crate::route_cache::RouteCache;
use crate::wire::RemotingCommand;
use raft::Node;
use std::sync::Arc;
use std::time::Duration;
use storage::RouteInfo;
use storage::route_info::BrokerKey;
use tokio::time::{Instant, timeout_at};

/// Topics from which on a read of the whole table leaves the connections' threads.
const LARGE_TABLE_TOPICS: usize = 4_000;

/// Carries reads out.
pub(super) struct Reader {
    pub(super) node: Node,
    pub(super) liveness: Liveness,
    pub(super) settings: NodeSettings,
    pub(super) readiness: Arc<Readiness>,
    pub(super) routes: RouteCache,
    pub(super) budgets: Arc<Budgets>,
    pub(super) started: Instant,
}

/// A read that cannot be answered at once.
pub(super) struct DelayedRead {
    pub(super) session: Arc<Session>,
    pub(super) command: RemotingCommand,
    pub(super) mode: ReadMode,
    pub(super) options: ReadOptions,
    pub(super) deadline: Instant,
    /// It goes over a large table.
    pub(super) large: bool,
}

impl Reader {
    /// Whether the request goes over a large table.
    pub(super) fn is_large(request: &Request<'_>, table: &RouteInfo) -> bool {
        handlers::reads_whole_table(request) && table.topics().len() > LARGE_TABLE_TOPICS
    }

    /// Answers from these tables. `is_newest`: they have what was acknowledged before the request came. A large reply that
    /// finds no room in the budget becomes SYSTEM_BUSY.
    pub(super) fn read(
        &self,
        request: &Request<'_>,
        options: ReadOptions,
        table: &RouteInfo,
        is_newest: bool,
    ) -> Reply {
        charged(self.answer(request, options, table, is_newest), &self.budgets)
    }

    fn answer(
        &self,
        request: &Request<'_>,
        options: ReadOptions,
        table: &RouteInfo,
        is_newest: bool,
    ) -> Reply {
        if self.readiness.get() == Ready::No {
            return replies::not_ready();
        }
        let waits_for_service = table.settings().need_wait_for_service;
        let context = ReadContext {
            table,
            routes: &self.routes,
            node: &self.settings,
            uptime: if waits_for_service { self.started.elapsed() } else { Duration::MAX },
            broker_not_registered: self.is_not_registered(request),
        };
        let reply = handlers::read(request, context);
        // Clients forget the route of a topic that does not exist; what this node lacks may well exist.
        let may_lack = handlers::denies(request, &reply, table) && !is_newest && !self.node.is_current();
        let reply = if may_lack { replies::not_in_this_table() } else { reply };
        with_revision(reply, options, table.revision().map(|id| id.index))
    }

    /// Whether the leader's last status of the broker that asks is "not registered".
    fn is_not_registered(&self, request: &Request<'_>) -> bool {
        let Request::QueryDataVersion(ask) = request else { return false };
        let broker = BrokerKey { cluster: ask.cluster.into(), address: ask.address.into() };
        self.liveness.is_not_registered(&broker)
    }

    /// Waits until this node may answer in the requested mode, and answers.
    pub(super) async fn read_later(self: Arc<Self>, read: DelayedRead) -> Progress {
        let waited = match read.mode {
            ReadMode::Local => Ok(()),
            ReadMode::MinRevision(revision) => self.node.wait_applied(revision, read.deadline).await,
            ReadMode::Linearizable => self.node.read_barrier(read.deadline).await.map(|_| ()),
        };
        if let Err(error) = waited {
            return Progress::Done(replies::of_read_error(&error));
        }
        // A small read is not worth a thread, and a simulation has only one.
        if read.large {
            return Progress::Done(self.read_large(read).await);
        }
        let request = Request::parse(&read.command);
        Progress::Done(request.map_or_else(
            |refused| refused,
            |request| self.read(&request, read.options, &self.node.table(), read.is_newest()),
        ))
    }

    /// Answers with a large reply: once the one before it was sent over the connection, and charged before it is made.
    async fn read_large(self: Arc<Self>, read: DelayedRead) -> Reply {
        let turn = timeout_at(read.deadline, Arc::clone(&read.session.large_reply).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            self.budgets.replies.refuse();
            return Reply::busy();
        };
        let (deadline, read) = (read.deadline, Arc::new(read));
        let (of, reader) = (Arc::clone(&read), Arc::clone(&self));
        let bytes_max = beside(move || {
            let request = Request::parse(&of.command);
            request.map(|request| handlers::reply_bytes_max(&request, &reader.node.table()))
        });
        let bytes_max = match bytes_max.await {
            Ok(Ok(bytes_max)) => bytes_max,
            Ok(Err(refused)) | Err(refused) => return refused,
        };
        let Some(mut charge) = self.budgets.replies.charge_by(deadline, bytes_max).await else {
            return Reply::busy();
        };
        let answer = beside(move || {
            let answer = |request| self.answer(&request, read.options, &self.node.table(), read.is_newest());
            Request::parse(&read.command).map_or_else(|refused| refused, answer)
        });
        let mut reply = answer.await.unwrap_or_else(|given_up| given_up);
        if !reply.body.is_empty() {
            charge.shrink_to(reply.body.len());
            reply.body = budget::hold(reply.body, (charge, turn));
        }
        reply
    }
}

impl DelayedRead {
    /// Whether the tables that it reads have what was acknowledged before it came.
    fn is_newest(&self) -> bool {
        self.mode == ReadMode::Linearizable
    }
}

/// Charges the body of a reply if it is large.
pub(super) fn charged(mut reply: Reply, budgets: &Budgets) -> Reply {
    if reply.body.len() > SMALL_BYTES {
        let Some(charge) = budgets.replies.charge_or_refuse(reply.body.len()) else { return Reply::busy() };
        reply.body = budget::hold(reply.body, charge);
    }
    reply
}

/// Runs work beside the connections' threads.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Reply> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Reply::error("the read was given up"))
}
