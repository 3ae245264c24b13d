//! A lane to a peer: connects when needed, keeps the connection, connects again when it broke.

use super::connection::{CallError, Connection, Limit};
use super::handshake::{self, Caller, Facts, HandshakeError, Lane};
use super::message::{Reply, Request};
use crate::api::NodeId;
use crate::health::truncated_tail as cut_tail;
use crate::local::node::Context;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

/// Connecting and shaking hands with one address.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Between two attempts to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(30);

/// What came of an attempt to connect; `None` while it runs.
type Attempt = Option<Result<Arc<Connection>, String>>;

/// A lane to one peer.
pub(crate) struct Link {
    target: NodeId,
    lane: Lane,
    context: Arc<Context>,
    /// The data directory that counts as the target, when the membership says so.
    directory: Arc<Mutex<Option<u128>>>,
    current: Mutex<Option<(watch::Receiver<Attempt>, Instant)>>,
    turn: tokio::sync::Mutex<()>,
}

impl Link {
    /// A lane that is not connected yet.
    pub(crate) fn new(
        target: NodeId,
        lane: Lane,
        context: Arc<Context>,
        directory: Arc<Mutex<Option<u128>>>,
    ) -> Self {
        Self {
            target,
            lane,
            context,
            directory,
            current: Mutex::new(None),
            turn: tokio::sync::Mutex::new(()),
        }
    }

    /// Whether a connection is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open().is_some()
    }

    /// What the peer said of itself on the open connection.
    pub(crate) fn facts(&self) -> Option<Facts> {
        self.open().map(|connection| connection.facts.clone())
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

    /// Asks, and waits for the answer.
    pub(crate) async fn call(&self, request: &Request, limit: Limit) -> Result<Reply, CallError> {
        let connect_by = match limit {
            Limit::Deadline(deadline) => deadline,
            Limit::Progress(_) => Instant::now() + 2 * CONNECT_MAX,
        };
        // One after the other up to being sent, so that messages keep the order of the calls.
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
        let asked = connection.ask(request, limit).await?;
        drop(turn);
        asked.answer(self.stall()).await
    }

    /// A call that is not answered in time closes the connection when nothing came for so long.
    fn stall(&self) -> Duration {
        match self.lane {
            Lane::Control => Duration::from_millis(10 * self.context.options.timing.heartbeat_ms),
            _ => Duration::from_secs(5),
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

    /// The attempt that is under way or holds an open connection, or a new one. It runs on its own, so that a
    /// caller with little time does not cut it short.
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
        let (target, lane, context) = (self.target, self.lane, Arc::clone(&self.context));
        let directory = *self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        let tasks = context.tasks.clone();
        tasks.spawn(async move {
            sleep_until(not_before).await;
            let result = tokio::select! {
                biased;
                result = connect(&context, target, lane, directory) => result,
                () = context.stop.cancelled() => Err("stopping".into()),
            };
            tx.send_replace(Some(result.map(Arc::new)));
        });
        rx
    }
}

/// Tries the addresses of a node one after the other.
async fn connect(
    context: &Context,
    target: NodeId,
    lane: Lane,
    directory: Option<u128>,
) -> Result<Connection, String> {
    let addresses = context.addresses(target);
    let mut failure = format!("no address of node {target} is known");
    for address in addresses {
        match connect_to(context, target, lane, directory, &address).await {
            Ok(connection) => return Ok(connection),
            Err(e) => failure = format!("{address}: {e}"),
        }
    }
    Err(failure)
}

/// Connects to one address, which must be the target.
pub(crate) async fn connect_to(
    context: &Context,
    target: NodeId,
    lane: Lane,
    directory: Option<u128>,
    address: &str,
) -> Result<Connection, String> {
    let attempt = async {
        let mut stream = context.network.connect(address).await?;
        let caller = Caller {
            secret: &context.options.secret,
            lane,
            target,
            target_directory: directory,
            facts: context.facts(),
            nonce: context.nonce(),
        };
        let facts = handshake::call(&mut stream, caller).await?;
        Ok::<_, HandshakeError>((stream, facts))
    };
    let (stream, facts) = match timeout(CONNECT_MAX, attempt).await {
        Ok(Ok(connected)) => connected,
        Ok(Err(HandshakeError::Refused(refusal, _))) => {
            context.refused(target, address, &refusal);
            return Err(refusal.to_string());
        }
        Ok(Err(HandshakeError::Secret)) => {
            context.notices.set(
                &format!("node {target}"),
                format!(
                    "node {target} at {address} has another peer secret: it must be the same on all nodes"
                ),
            );
            return Err("the peer has another secret".into());
        }
        Ok(Err(HandshakeError::Broken(e))) => return Err(e.to_string()),
        Err(_) => return Err("not connected in time".into()),
    };
    if facts.node_id != target {
        return Err(format!("this is node {}", facts.node_id));
    }
    context.notices.clear(&format!("node {target}"));
    cut_tail::hear(context, &facts);
    Ok(Connection::new(stream, facts, &context.tasks, &context.stop))
}
