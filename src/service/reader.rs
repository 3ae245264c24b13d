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

    /// Answers from these tables. A large reply that finds no room in the budget becomes SYSTEM_BUSY.
    pub(super) fn read(&self, request: &Request<'_>, options: ReadOptions, table: &RouteInfo) -> Reply {
        charged(self.answer(request, options, table), &self.budgets)
    }

    fn answer(&self, request: &Request<'_>, options: ReadOptions, table: &RouteInfo) -> Reply {
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
        with_revision(handlers::read(request, context), options, table.revision().map(|id| id.index))
    }

    /// Whether the leader's last status of the broker that asks is "not registered".
    fn is_not_registered(&self, request: &Request<'_>) -> bool {
        let Request::QueryDataVersion(ask) = request else { return false };
        let broker = BrokerKey { cluster: ask.cluster.into(), address: ask.address.into() };
        self.liveness.is_not_registered(&broker)
    }

    /// Waits until this node may answer in the requested mode, and answers.
    pub(super) async fn read_later(self: Arc<Self>, read: DelayedRead) -> Progress {
        let DelayedRead { session, command, mode, options, deadline, large } = read;
        let waited = match mode {
            ReadMode::Local => Ok(()),
            ReadMode::MinRevision(revision) => self.node.wait_applied(revision, deadline).await,
            ReadMode::Linearizable => self.node.read_barrier(deadline).await.map(|_| ()),
        };
        if let Err(error) = waited {
            return Progress::Done(replies::of_read_error(&error));
        }
        // A small read is not worth a thread, and a simulation has only one.
        Progress::Done(if large {
            self.read_large(&session, command, options, deadline).await
        } else {
            let request = Request::parse(&command);
            request.map_or_else(|refused| refused, |request| self.read(&request, options, &self.node.table()))
        })
    }

    /// Answers with a large reply: once the one before it was sent over the connection, and charged before it is made.
    async fn read_large(
        self: Arc<Self>,
        session: &Session,
        command: RemotingCommand,
        options: ReadOptions,
        deadline: Instant,
    ) -> Reply {
        let turn = timeout_at(deadline, Arc::clone(&session.large_reply).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            self.budgets.replies.refuse();
            return Reply::busy();
        };
        let command = Arc::new(command);
        let (of, reader) = (Arc::clone(&command), Arc::clone(&self));
        let bytes_max = beside(move || {
            Request::parse(&of).map(|request| handlers::reply_bytes_max(&request, &reader.node.table()))
        });
        let bytes_max = match bytes_max.await {
            Ok(Ok(bytes_max)) => bytes_max,
            Ok(Err(refused)) | Err(refused) => return refused,
        };
        let Some(mut charge) = self.budgets.replies.charge_by(deadline, bytes_max).await else {
            return Reply::busy();
        };
        let answer = beside(move || {
            let request = Request::parse(&command);
            request
                .map_or_else(|refused| refused, |request| self.answer(&request, options, &self.node.table()))
        });
        let mut reply = answer.await.unwrap_or_else(|given_up| given_up);
        if !reply.body.is_empty() {
            charge.shrink_to(reply.body.len());
            reply.body = budget::hold(reply.body, (charge, turn));
        }
        reply
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
