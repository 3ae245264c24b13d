//! One task that collects queued commands into log entries.
//!
//! - Each command keeps its own outcome, although many share an entry.
//! - A change that is in flight already is not proposed again: its caller waits with the first.
//! - A change that would change nothing is answered from the leader's table, if its lease is valid.
//! - A change that registers a broker which a removal in flight removes is proposed in any case, behind the removal: the
//!   table of now does not show the removal, and its caller would take a broker for registered that the removal takes
//!   out. `storage` knows which changes those are.
//! - A command that would make a part of the tables too large is refused, with those in flight taken into account.
//! - A command whose deadline has passed is dropped before anything is appended.

use super::draft::{Draft, Drafter};
use super::entry;
use super::in_flight::{InFlight, ProposedEntry, finish_in_order, not_leader, notify};
use super::outcome::ProposalOutcome;
use super::queue::{Queue, QueuedCommand};
use crate::api::Proposed;
use crate::consensus::applied_state::AppliedStatePublisher;
use crate::consensus::raft::Raft;
use crate::consensus::types::Batch;
use crate::leader::leadership::Leadership;
use crate::local::{LocalNode, blocking};
use openraft::impls::OneshotResponder;
use openraft::vote::leader_id_std::CommittedLeaderId;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Entries that may be in flight at once.
const IN_FLIGHT_MAX: usize = 2;
/// Commands of no more bytes are compared with the tables at once.
const INLINE_BYTES_MAX: usize = 64 << 10;

/// Collects queued commands into log entries.
pub(crate) struct Batcher {
    local: Arc<LocalNode>,
    raft: Raft,
    leadership: Arc<Leadership>,
    applied: Arc<AppliedStatePublisher>,
    queue: Queue,
    permits: Arc<Semaphore>,
    in_flight: InFlight,
    drafter: Arc<Drafter>,
    /// The term in which the cluster's initial commands were proposed.
    initial_commands_term: Option<u64>,
}

impl Batcher {
    /// A batcher behind a queue.
    pub(crate) fn new(
        local: Arc<LocalNode>,
        raft: Raft,
        leadership: Arc<Leadership>,
        applied: Arc<AppliedStatePublisher>,
        queue: mpsc::Receiver<QueuedCommand>,
    ) -> Self {
        let in_flight = InFlight::default();
        Self {
            queue: Queue::new(queue, local.options.batch_commands_max),
            permits: Arc::new(Semaphore::new(IN_FLIGHT_MAX)),
            drafter: Arc::new(Drafter::new(leadership.clone(), applied.clone(), in_flight.clone())),
            in_flight,
            initial_commands_term: None,
            local,
            raft,
            leadership,
            applied,
        }
    }

    /// Runs until the node stops or the queue ends.
    pub(crate) async fn run(mut self) {
        let lifecycle = &self.local.lifecycle;
        let stop = lifecycle.stop.clone();
        let (proposed, entries) = mpsc::unbounded_channel();
        lifecycle.tasks.spawn(finish_in_order(self.in_flight.clone(), entries));
        tokio::select! {
            biased;
            () = self.propose_queued(&proposed) => {}
            () = stop.cancelled() => {}
        }
    }

    /// `proposed`: gets the entries, in the order of the log.
    async fn propose_queued(&mut self, proposed: &mpsc::UnboundedSender<ProposedEntry>) {
        let mut leadership = self.leadership.subscribe();
        loop {
            let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else { return };
            self.propose_initial_commands().await;
            tokio::select! {
                biased;
                batch = self.queue.next() => match batch {
                    Some(batch) => self.propose(batch, permit, proposed).await,
                    None => return,
                },
                _ = leadership.changed() => {}
            }
        }
    }

    /// The initial commands of a new cluster, once per term until they are applied. Also when there are none: a later
    /// leader, with other ones in its options, must find that this cluster has had its own.
    async fn propose_initial_commands(&mut self) {
        let leadership = self.leadership.state();
        let commands = &self.local.options.initial_commands;
        if !leadership.leading
            || self.applied.has_initial_commands()
            || self.initial_commands_term == Some(leadership.term)
        {
            return;
        }
        self.initial_commands_term = Some(leadership.term);
        tracing::info!("the new cluster begins with {} commands", commands.len());
        match entry::encode(commands) {
            Ok(bytes) => {
                let write = self.raft.write(Batch(bytes));
                if let Err(e) = write.with_leader(CommittedLeaderId::new(leadership.term)).await {
                    tracing::error!("the cluster's initial commands are not proposed: {e}");
                }
            }
            Err(e) => tracing::error!("the cluster's initial commands cannot be encoded: {e}"),
        }
    }

    async fn propose(
        &self,
        batch: Vec<QueuedCommand>,
        permit: OwnedSemaphorePermit,
        proposed: &mpsc::UnboundedSender<ProposedEntry>,
    ) {
        let Some(term) = self.leadership.term_to_propose_in() else {
            return batch.into_iter().for_each(|queued| notify(queued.waiter, not_leader()));
        };
        if let Some(reason) = self.local.disk.refuses_appends() {
            let refused = ProposalOutcome::Refused(reason);
            return batch.into_iter().for_each(|queued| notify(queued.waiter, refused.clone()));
        }
        let Some(Draft { commands, encoded_bytes, hashes }) = self.draft(batch, term).await else { return };
        let bytes = match entry::encode_beside(commands, encoded_bytes).await {
            Ok(bytes) => bytes,
            Err(e) => return self.finish(&hashes, &ProposalOutcome::Refused(e.to_string())),
        };
        let (responder, done) = OneshotResponder::new_pair();
        let write = self.raft.write(Batch(bytes)).responder(responder);
        // Only in the term that the draft was made for: the table that it was checked against may differ in another.
        if let Err(e) = write.with_leader(CommittedLeaderId::new(term)).await {
            return self.finish(&hashes, &ProposalOutcome::Refused(e.to_string()));
        }
        let entry = ProposedEntry { done, hashes, permit };
        if let Err(mpsc::error::SendError(entry)) = proposed.send(entry) {
            let unknown = ProposalOutcome::Unknown("the node stopped while it was under way".into());
            self.finish(&entry.hashes, &unknown);
        }
    }

    /// An entry of what must go into one; large commands are compared with the tables beside this thread.
    async fn draft(&self, batch: Vec<QueuedCommand>, term: u64) -> Option<Draft> {
        let bytes: usize = batch.iter().map(|queued| queued.bytes).sum();
        let drafter = Arc::clone(&self.drafter);
        let draft = move || drafter.draft(batch, term);
        let draft = if bytes > INLINE_BYTES_MAX { blocking(move || Ok(draft())).await } else { Ok(draft()) };
        // The waiters of a draft that was given up see their ends.
        draft.inspect_err(|e| tracing::error!("commands cannot be proposed: {e}")).ok()?
    }

    fn finish(&self, hashes: &[u128], outcome: &ProposalOutcome<Proposed>) {
        self.in_flight.finish(hashes.iter().map(|hash| (*hash, outcome.clone())));
    }
}
