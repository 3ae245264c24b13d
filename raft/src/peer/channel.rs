//! A channel to a peer: connects when needed, keeps the connection, connects again when it broke.

use super::connection::{CallError, Connection, Limit};
use super::dialer::{CONNECT_MAX, Dialer};
use super::handshake::ChannelKind;
use super::message::{Reply, Request};
use super::node_info::NodeInfo;
use crate::api::NodeId;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// A connection that delivers nothing for so long has failed.
const STALL: Duration = Duration::from_secs(5);
/// Between two attempts to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(30);

/// The result of an attempt to connect; `None` while it runs.
type Attempt = Option<Result<Arc<Connection>, String>>;

/// One channel to one peer.
pub(crate) struct PeerChannel {
    target: NodeId,
    kind: ChannelKind,
    dialer: Arc<Dialer>,
    /// The target's data directory, when the membership names it.
    directory: Arc<Mutex<Option<u128>>>,
    current: Mutex<Option<(watch::Receiver<Attempt>, Instant)>>,
    turn: tokio::sync::Mutex<()>,
}

impl PeerChannel {
    /// A channel that is not connected yet.
    pub(crate) fn new(
        target: NodeId,
        kind: ChannelKind,
        dialer: Arc<Dialer>,
        directory: Arc<Mutex<Option<u128>>>,
    ) -> Self {
        Self { target, kind, dialer, directory, current: Mutex::new(None), turn: tokio::sync::Mutex::new(()) }
    }

    /// Whether a connection is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open().is_some()
    }

    /// What the peer stated on the open connection.
    pub(crate) fn info(&self) -> Option<NodeInfo> {
        self.open().map(|connection| connection.info.clone())
    }

    fn open(&self) -> Option<Arc<Connection>> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let (attempt, _) = current.as_ref()?;
        let connection = attempt.borrow().as_ref()?.as_ref().ok().map(Arc::clone);
        connection.filter(|c| c.is_open())
    }

    /// Ends the connection, if there is one.
    pub(crate) fn close(&self) {
        if let Some(connection) = self.open() {
            connection.close();
        }
    }

    /// Sends a request, and waits for the reply.
    pub(crate) async fn call(&self, request: &Request, limit: Limit) -> Result<Reply, CallError> {
        let connect_by = match limit {
            Limit::Deadline(deadline) => deadline,
            Limit::Progress(_) => Instant::now() + 2 * CONNECT_MAX,
        };
        // One call after the other until its request is sent, so that messages keep the order of the calls.
        let turn = self.turn.lock();
        let connected = async {
            let turn = turn.await;
            (self.connection().await, turn)
        };
        let (connection, turn) = tokio::select! {
            biased;
            connected = connected => connected,
            () = sleep_until(connect_by) => return Err(CallError::NotSent("not connected in time".into())),
        };
        let connection = connection.map_err(CallError::NotSent)?;
        let pending = connection.send(request, limit).await?;
        drop(turn);
        pending.reply(self.stall()).await
    }

    /// A call without a reply in time closes the connection when nothing came in for so long.
    fn stall(&self) -> Duration {
        match self.kind {
            ChannelKind::Control => {
                Duration::from_millis(10 * self.dialer.local().options.timing.heartbeat_ms)
            }
            _ => STALL,
        }
    }

    async fn connection(&self) -> Result<Arc<Connection>, String> {
        let mut attempt = self.attempt();
        let result = attempt.wait_for(Option::is_some).await;
        match result {
            Ok(done) => done.clone().unwrap_or_else(|| Err("stopping".into())),
            Err(_) => Err("stopping".into()),
        }
    }

    /// The attempt that is under way or holds an open connection, or a new one. It runs in a task, so that the deadline
    /// of one caller does not end it.
    fn attempt(&self) -> watch::Receiver<Attempt> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let mut not_before = Instant::now();
        if let Some((attempt, since)) = current.as_ref() {
            let usable = match &*attempt.borrow() {
                None => attempt.has_changed().is_ok(),
                Some(Ok(connection)) => connection.is_open(),
                Some(Err(_)) => false,
            };
            if usable {
                return attempt.clone();
            }
            not_before = *since + CONNECT_PAUSE;
        }
        let (tx, rx) = watch::channel(None);
        *current = Some((rx.clone(), not_before.max(Instant::now())));
        let (target, kind, dialer) = (self.target, self.kind, Arc::clone(&self.dialer));
        let directory = *self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        let tasks = dialer.local().lifecycle.tasks.clone();
        tasks.spawn(async move {
            sleep_until(not_before).await;
            let result = tokio::select! {
                biased;
                result = dialer.connect(target, kind, directory) => result,
                () = dialer.local().lifecycle.stop.cancelled() => Err("stopping".into()),
            };
            tx.send_replace(Some(result.map(Arc::new)));
        });
        rx
    }
}
