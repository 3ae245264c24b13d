//! The thin asynchronous side: locks the core, reads the clock, talks to consensus and to other nodes.

use super::core::{Core, Leader};
use super::notices::{MinBrokerIdNotice, Notices};
use super::report::{Message, Reply};
use super::{Heard, LivenessOptions, SessionId};
use crate::warn_limit::WarnLimit;
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use raft::{Node, NodeId, PeerMessages};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use storage::route_info::BrokerKey;
use storage::runtime::Runtime;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What all handles and tasks share.
pub(super) struct Shell {
    core: Mutex<Core>,
    /// Let go of when it stops: the node holds this, to hand it messages.
    node: ArcSwapOption<Node>,
    pub(super) node_id: NodeId,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) decider: Notify,
    /// Raised when a report must go at once.
    pub(super) urgent: watch::Sender<()>,
    pub(super) notices: Mutex<Notices>,
    pub(super) stop: CancellationToken,
    expired: mpsc::UnboundedSender<SessionId>,
    outbox: mpsc::Sender<MinBrokerIdNotice>,
    dropped: WarnLimit,
}

impl Shell {
    pub(super) fn new(
        options: &LivenessOptions,
        runtime: Arc<dyn Runtime>,
        expired: mpsc::UnboundedSender<SessionId>,
        outbox: mpsc::Sender<MinBrokerIdNotice>,
    ) -> Self {
        let core = Core::new(options, runtime.random_u64(), Instant::now());
        Self {
            core: Mutex::new(core),
            node: ArcSwapOption::empty(),
            node_id: options.node_id,
            runtime,
            decider: Notify::new(),
            urgent: watch::Sender::new(()),
            notices: Mutex::default(),
            stop: CancellationToken::new(),
            expired,
            outbox,
            dropped: WarnLimit::new(),
        }
    }

    /// Sets the node; `false` when it was set before.
    pub(super) fn set_node(&self, node: Node) -> bool {
        self.node.compare_and_swap(&None::<Arc<Node>>, Some(Arc::new(node))).is_none()
    }

    /// Ends the tasks and lets go of the node.
    pub(super) fn stop(&self) {
        self.stop.cancel();
        self.node.store(None);
    }

    /// Runs `act` on the locked core at this moment, then wakes whom it wants woken.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Core, Instant) -> R) -> R {
        let (result, wakes) = {
            let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
            let result = act(&mut core, Instant::now());
            (result, std::mem::take(&mut core.wakes))
        };
        if wakes.senders {
            self.urgent.send_replace(());
        }
        if wakes.decider {
            self.decider.notify_one();
        }
        result
    }

    /// As [`Shell::with`], with what this node knows as a leader, if it is one now. Lease and table are looked at
    /// under the lock: see [`Leader`].
    pub(super) fn with_leader<R>(&self, act: impl FnOnce(&mut Core, Instant, Option<&Leader<'_>>) -> R) -> R {
        self.with(|core, now| {
            let node = self.node.load();
            let Some((node, term)) =
                node.as_deref().and_then(|node| Some((node, node.is_leader_with_lease()?)))
            else {
                return act(core, now, None);
            };
            let table = node.table();
            let incarnation = |broker: &BrokerKey| table.live(broker).map(|live| live.incarnation);
            let applied = table.revision().map_or(0, |id| id.index);
            act(core, now, Some(&Leader { term, applied, incarnation: &incarnation }))
        })
    }

    /// A broker was heard. Which registration a session stands for is looked up in this node's table.
    pub(super) fn heard(&self, session: SessionId, broker: &BrokerKey, what: Heard) {
        let incarnation = if what == Heard::Register {
            let table = self.node.load().as_deref().map(Node::table);
            table.and_then(|table| Some(table.live(broker)?.incarnation))
        } else {
            None
        };
        self.with(|core, now| core.heard(now, session, broker, what, incarnation));
    }

    /// Connections that must be closed, since a broker of theirs expired.
    pub(super) fn close(&self, sessions: Vec<SessionId>) {
        for session in sessions {
            // Nobody listens: the server has stopped and closed them all.
            let _ = self.expired.send(session);
        }
    }

    /// Hands notices out.
    pub(super) fn hand_out(&self, notices: Vec<MinBrokerIdNotice>) {
        for notice in notices {
            match self.outbox.try_send(notice) {
                Ok(()) => self.with(|core, _| core.counters.notices += 1),
                Err(mpsc::error::TrySendError::Full(notice)) => {
                    if let Some(held_back) = self.dropped.allow() {
                        tracing::warn!(broker = %notice.broker, held_back, "min-broker-id notice dropped: too many wait");
                    }
                }
                Err(mpsc::error::TrySendError::Closed(_)) => {}
            }
        }
    }

    fn answer(&self, from: NodeId, message: &[u8]) -> Reply {
        match Message::decode(message) {
            Ok(Message::Report(report)) => {
                Reply::Report(self.with_leader(|core, now, leader| core.receive(now, from, report, leader)))
            }
            Ok(Message::Ask(ask)) => {
                self.with(|core, _| core.asked(from, ask));
                Reply::Asked
            }
            Ok(Message::Protecting(ms)) => {
                self.with(|core, now| core.others_protect(now, Duration::from_millis(ms)));
                Reply::Asked
            }
            Err(error) => {
                tracing::debug!(from, %error, "liveness message refused");
                Reply::Refused
            }
        }
    }
}

impl PeerMessages for Shell {
    fn handle(&self, from: NodeId, message: Bytes) -> Pin<Box<dyn Future<Output = Bytes> + Send + '_>> {
        let reply = self.answer(from, &message).encode();
        Box::pin(std::future::ready(reply))
    }
}
