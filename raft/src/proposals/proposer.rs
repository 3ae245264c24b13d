//! A command from its caller to the leader's queue, and its outcome back.

use super::admission::Admission;
use super::leader_client::LeaderClient;
use super::outcome::ProposalOutcome;
use super::queue::{QUEUE_MAX, QueuedCommand};
use crate::api::{ProposeError, Proposed};
use crate::consensus::applied_state::AppliedStatePublisher;
use crate::local::{LocalNode, background};
use crate::peer::message::{Reply, Request};
use std::sync::Arc;
use storage::Command;
use storage::format::{self, FormatError};
use storage::limits::COMMAND_BYTES_MAX;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

/// A command's origin without the address of the peer, encoded, bytes.
const ORIGIN_BYTES: usize = 32;

/// A command of no more parts is encoded at once.
const INLINE_PARTS_MAX: usize = 500;

/// What the queue knows of a command beside the command.
#[derive(Clone, Copy)]
struct Measured {
    /// Its size, encoded.
    bytes: usize,
    /// Hash of its change.
    hash: u128,
}

/// Proposes commands, at this node if it leads and else through the leader.
pub(crate) struct Proposer {
    local: Arc<LocalNode>,
    applied: Arc<AppliedStatePublisher>,
    leader: Arc<LeaderClient>,
    /// To the batcher.
    queue: mpsc::Sender<QueuedCommand>,
    admission: Admission,
    /// Seeds the hashes by which the batcher finds equal changes in flight.
    hash_seed: u64,
}

impl Proposer {
    /// A proposer in front of the batcher's queue.
    pub(crate) fn new(
        local: Arc<LocalNode>,
        applied: Arc<AppliedStatePublisher>,
        leader: Arc<LeaderClient>,
        queue: mpsc::Sender<QueuedCommand>,
    ) -> Self {
        let hash_seed = local.runtime.random_u64();
        Self { local, applied, leader, queue, admission: Admission::default(), hash_seed }
    }

    /// Carries a command out through the leader, and waits until this node has applied it.
    pub(crate) async fn propose(
        &self,
        command: Command,
        deadline: Instant,
    ) -> Result<Proposed, ProposeError> {
        // Before it goes to the leader: no message to a peer has room for a command that is too large.
        let (command, measured) = self.measure(command).await.map_err(ProposeError::Refused)?;
        let _room = self.admission.admit(measured.bytes, deadline).await.map_err(ProposeError::Refused)?;
        let here = || self.enqueue(command.clone(), measured, None, deadline);
        let request = |time_left_ms| Request::Propose { command: Box::new(command.clone()), time_left_ms };
        let done = |reply| match reply {
            Reply::Proposed { position, outcome } => Ok(Proposed { position, outcome }),
            other => Err(other),
        };
        let outcome = self.leader.ask(deadline, here, request, done).await;
        self.wait_applied(outcome, deadline).await.into_result()
    }

    /// Carries out what the leader of a term decided by itself. Never forwarded.
    pub(crate) async fn propose_in_term(
        &self,
        term: u64,
        command: Command,
        deadline: Instant,
    ) -> Result<Proposed, ProposeError> {
        if self.local.lifecycle.is_stopping() {
            return Err(ProposeError::Refused("the node is stopping".into()));
        }
        let outcome = self.submit(command, Some(term), deadline).await;
        self.wait_applied(outcome, deadline).await.into_result()
    }

    /// Puts a command into this node's queue; done only if this node leads. `term`: the only term in which it may be
    /// proposed.
    pub(crate) async fn submit(
        &self,
        command: Command,
        term: Option<u64>,
        deadline: Instant,
    ) -> ProposalOutcome<Proposed> {
        let (command, measured) = match self.measure(command).await {
            Ok(measured) => measured,
            Err(reason) => return ProposalOutcome::Refused(reason),
        };
        match self.admission.admit(measured.bytes, deadline).await {
            Ok(_room) => self.enqueue(command, measured, term, deadline).await,
            Err(reason) => ProposalOutcome::Refused(reason),
        }
    }

    /// A command with its size and its hash.
    ///
    /// # Errors
    /// The reason to refuse it: it is too large.
    async fn measure(&self, command: Command) -> Result<(Command, Measured), String> {
        let seed = self.hash_seed;
        if command.change.parts() <= INLINE_PARTS_MAX {
            return measure(&command, seed).map(|measured| (command, measured));
        }
        let measured = background(move || measure(&command, seed).map(|measured| (command, measured)));
        measured.await.map_err(|e| e.to_string())?
    }

    async fn enqueue(
        &self,
        command: Command,
        Measured { bytes, hash }: Measured,
        term: Option<u64>,
        deadline: Instant,
    ) -> ProposalOutcome<Proposed> {
        let (waiter, outcome) = oneshot::channel();
        let queued = QueuedCommand { command, bytes, hash, term, deadline, waiter };
        match timeout_at(deadline, self.queue.send(queued)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return ProposalOutcome::Refused("the node is stopping".into()),
            Err(_) => return ProposalOutcome::Refused("too many commands wait".into()),
        }
        match timeout_at(deadline, outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => ProposalOutcome::Unknown("the node stopped while it was under way".into()),
            Err(_) => ProposalOutcome::Unknown("not committed in time".into()),
        }
    }

    /// Whether no command waits in the queue.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.capacity() >= QUEUE_MAX
    }

    async fn wait_applied(
        &self,
        outcome: ProposalOutcome<Proposed>,
        deadline: Instant,
    ) -> ProposalOutcome<Proposed> {
        let ProposalOutcome::Done(proposed) = outcome else { return outcome };
        let stop = &self.local.lifecycle.stop;
        match self.applied.wait_for(proposed.position.index, deadline, stop).await {
            Ok(()) => ProposalOutcome::Done(proposed),
            Err(e) => ProposalOutcome::Unknown(format!("committed, but: {e}")),
        }
    }
}

fn measure(command: &Command, hash_seed: u64) -> Result<Measured, String> {
    let beside = ORIGIN_BYTES + command.origin.peer.len();
    let bytes_max = COMMAND_BYTES_MAX.saturating_sub(beside);
    let encoded = format::encode_within("command", &command.change, bytes_max).map_err(|e| match e {
        FormatError::TooLarge { .. } => {
            format!("the command is too large: of its bytes at most {COMMAND_BYTES_MAX} are taken")
        }
        other => other.to_string(),
    })?;
    let hash = xxhash_rust::xxh3::xxh3_128_with_seed(&encoded, hash_seed);
    Ok(Measured { bytes: encoded.len() + beside, hash })
}
