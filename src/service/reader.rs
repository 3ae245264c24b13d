//! Reads: from the tables of this node, at once or after a read barrier.

use super::progress::Progress;
use super::readiness::{Readiness, Ready};
use super::revision::with_revision;
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
use tokio::time::Instant;

/// Topics from which on a read of the whole table leaves the connections' threads.
const LARGE_TABLE_TOPICS: usize = 4_000;

/// Carries reads out.
pub(super) struct Reader {
    pub(super) node: Node,
    pub(super) liveness: Liveness,
    pub(super) settings: NodeSettings,
    pub(super) readiness: Arc<Readiness>,
    pub(super) routes: RouteCache,
    pub(super) started: Instant,
}

/// A read that cannot be answered at once.
pub(super) struct DelayedRead {
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

    /// Answers from these tables. `is_newest`: they have what was acknowledged before the request came.
    pub(super) fn read(
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
        let DelayedRead { command, mode, options, deadline, large } = read;
        let waited = match mode {
            ReadMode::Local => Ok(()),
            ReadMode::MinRevision(revision) => self.node.wait_applied(revision, deadline).await,
            ReadMode::Linearizable => self.node.read_barrier(deadline).await.map(|_| ()),
        };
        if let Err(error) = waited {
            return Progress::Done(replies::of_read_error(&error));
        }
        let read = move || {
            let request = Request::parse(&command)?;
            let is_newest = mode == ReadMode::Linearizable;
            Ok(self.read(&request, options, &self.node.table(), is_newest))
        };
        // A small read is not worth a thread, and a simulation has only one.
        let reply: Result<Result<Reply, Reply>, _> =
            if large { tokio::task::spawn_blocking(read).await } else { Ok(read()) };
        Progress::Done(match reply {
            Ok(Ok(reply) | Err(reply)) => reply,
            Err(_) => Reply::error("the read was given up"),
        })
    }
}
