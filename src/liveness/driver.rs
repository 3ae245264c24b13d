//! Between the tracker and the world: locks the tracker, reads the clock, looks at consensus, takes messages.

use super::leader::Leader;
use super::messages::{Message, Reply};
use super::tracker::Tracker;
use super::{IdleTimes, LivenessOptions, SessionId, SessionsFull, Strength};
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use raft::{Node, NodeId, PeerMessages};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use storage::RouteInfo;
use storage::route_info::BrokerKey;
use storage::runtime::Runtime;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The channel of a node's stream: its messages arrive in order.
pub(super) const CHANNEL_STREAM: u8 = 0;
/// The channel of questions that must not hold a report up.
const CHANNEL_QUESTIONS: u8 = 1;

/// What all handles and tasks share.
pub(super) struct Driver {
    tracker: Mutex<Tracker>,
    /// Let go of when it stops: the node holds this, to hand it messages.
    node: ArcSwapOption<Node>,
    pub(super) node_id: NodeId,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) decider: Notify,
    /// Raised when a message must go at once.
    pub(super) urgent: watch::Sender<()>,
    pub(super) stop: CancellationToken,
    expired: mpsc::UnboundedSender<SessionId>,
}

impl Driver {
    pub(super) fn new(
        options: &LivenessOptions,
        runtime: Arc<dyn Runtime>,
        expired: mpsc::UnboundedSender<SessionId>,
    ) -> Self {
        let tracker = Tracker::new(options, runtime.random_u64(), Instant::now());
        Self {
            tracker: Mutex::new(tracker),
            node: ArcSwapOption::empty(),
            node_id: options.node_id,
            runtime,
            decider: Notify::new(),
            urgent: watch::Sender::new(()),
            stop: CancellationToken::new(),
            expired,
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

    /// Runs `act` on the locked tracker at this moment, then wakes the tasks that it wants woken.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Tracker, Instant) -> R) -> R {
        let (result, wakes) = {
            let mut tracker = self.tracker.lock().unwrap_or_else(PoisonError::into_inner);
            let result = act(&mut tracker, Instant::now());
            (result, tracker.take_wakes())
        };
        if wakes.senders {
            self.urgent.send_replace(());
        }
        if wakes.decider {
            self.decider.notify_one();
        }
        result
    }

    /// As [`Driver::with`], with what this node knows as a leader, if it is one now. Lease and table are looked at under
    /// the lock: see [`Leader`].
    pub(super) fn with_leader<R>(
        &self,
        act: impl FnOnce(&mut Tracker, Instant, Option<&Leader<'_>>) -> R,
    ) -> R {
        self.with(|tracker, now| {
            let node = self.node.load();
            let Some((node, term)) =
                node.as_deref().and_then(|node| Some((node, node.is_leader_with_lease()?)))
            else {
                return act(tracker, now, None);
            };
            let table = node.table();
            let leader = Leader { term, table: &table };
            tracker.lead(now, &leader);
            act(tracker, now, Some(&leader))
        })
    }

    /// A broker was heard. Which registration a strong session stands for is looked up in this node's table.
    pub(super) fn heartbeat(
        &self,
        session: SessionId,
        broker: &BrokerKey,
        strength: Strength,
    ) -> Result<(), SessionsFull> {
        let incarnation = match strength {
            Strength::Strong => self.table().and_then(|table| Some(table.live(broker)?.incarnation)),
            Strength::Weak => None,
        };
        self.with(|tracker, now| tracker.heartbeat(now, session, broker, strength, incarnation))
    }

    fn table(&self) -> Option<Arc<RouteInfo>> {
        self.node.load().as_deref().map(Node::table)
    }

    /// The idle times of all brokers: the leader's, or this node's own when the leader does not answer in time.
    pub(super) async fn idle_times(&self, deadline: Instant) -> IdleTimes {
        let node = self.node.load_full();
        let leader = self.with(|tracker, _| tracker.other_leader());
        if let (Some(node), Some(leader), Ok(question)) = (node, leader, Message::IdleTimes.encode()) {
            let reply = node.message(leader, CHANNEL_QUESTIONS, question, deadline).await;
            if let Some(Reply::IdleTimes(idle)) = reply.ok().and_then(|bytes| Reply::decode(&bytes).ok()) {
                return IdleTimes { everywhere: true, idle_ms: idle.into_iter().collect() };
            }
        }
        let (everywhere, idle_ms) =
            self.with_leader(|tracker, now, leader| (leader.is_some(), tracker.all_idle(now)));
        IdleTimes { everywhere, idle_ms }
    }

    /// Connections that must be closed, since a broker of theirs expired.
    pub(super) fn close(&self, sessions: Vec<SessionId>) {
        for session in sessions {
            // The receiver is gone when the server has stopped, and it has closed all of them.
            let _ = self.expired.send(session);
        }
    }

    fn receive(&self, from: NodeId, message: &[u8]) -> Reply {
        match Message::decode(message) {
            Ok(message) => {
                self.with_leader(|tracker, now, leader| tracker.receive(now, from, message, leader))
            }
            Err(error) => {
                tracing::debug!(from, %error, "liveness message refused");
                Reply::Refused
            }
        }
    }
}

impl PeerMessages for Driver {
    fn handle(&self, from: NodeId, message: Bytes) -> Pin<Box<dyn Future<Output = Bytes> + Send + '_>> {
        let reply = self.receive(from, &message).encode();
        Box::pin(std::future::ready(reply))
    }
}
