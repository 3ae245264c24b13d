//! What of a batch goes into an entry.

use super::in_flight::{InFlight, not_leader, notify};
use super::outcome::ProposalOutcome;
use super::queue::QueuedCommand;
use crate::api::Proposed;
use crate::consensus::applied_state::AppliedStatePublisher;
use crate::leader::leadership::Leadership;
use std::sync::Arc;
use storage::route_info::Prepared;
use storage::{Command, Position, RouteInfo};
use tokio::time::Instant;

/// An entry in the making.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) commands: Vec<Command>,
    /// Size of the commands as they came, encoded.
    pub(super) encoded_bytes: usize,
    pub(super) hashes: Vec<u128>,
}

/// Compares commands with the tables and with what is in flight.
pub(super) struct Drafter {
    leadership: Arc<Leadership>,
    applied: Arc<AppliedStatePublisher>,
    in_flight: InFlight,
}

impl Drafter {
    pub(super) fn new(
        leadership: Arc<Leadership>,
        applied: Arc<AppliedStatePublisher>,
        in_flight: InFlight,
    ) -> Self {
        Self { leadership, applied, in_flight }
    }

    /// Sorts out what need not, or must not, go into the entry. None if nothing is left.
    pub(super) fn draft(&self, batch: Vec<QueuedCommand>, term: u64) -> Option<Draft> {
        let now = Instant::now();
        let mut draft = Draft::default();
        let mut in_flight = self.in_flight.lock();
        // Behind the lock: what is not in flight any more is in this table.
        let table = self.applied.table();
        for QueuedCommand { command, bytes, hash, term: only_in, deadline, waiter } in batch {
            if deadline <= now {
                notify(waiter, ProposalOutcome::Refused("its time was over before it was proposed".into()));
                continue;
            }
            if only_in.is_some_and(|only| only != term) {
                let reason = format!("decided in another term than {term}");
                notify(waiter, ProposalOutcome::Refused(reason));
                continue;
            }
            let (prepared, waiter) = if in_flight.remove_what_it_registers(&command.change) {
                (Prepared::Propose(Box::new(command)), waiter)
            } else {
                let Some(waiter) = in_flight.join(hash, waiter) else { continue };
                (table.prepare(command), waiter)
            };
            match prepared {
                Prepared::Propose(command) => {
                    let beside = in_flight.kv_growth_beside(&command.change);
                    if let Err(reason) = table.check_growth(&command.change, beside) {
                        notify(waiter, ProposalOutcome::Refused(reason));
                        continue;
                    }
                    draft.hashes.push(in_flight.add(hash, &command.change, waiter));
                    draft.commands.push(*command);
                    draft.encoded_bytes += bytes;
                }
                Prepared::Done(outcome) => notify(waiter, self.unchanged(outcome, &table, term)),
            }
        }
        (!draft.commands.is_empty()).then_some(draft)
    }

    /// The outcome of a command that changes nothing in the table.
    fn unchanged(
        &self,
        outcome: storage::Outcome,
        table: &RouteInfo,
        term: u64,
    ) -> ProposalOutcome<Proposed> {
        // Without a lease another leader may have changed the tables meanwhile.
        if self.leadership.lease() != Some(term) {
            return not_leader();
        }
        let index = table.revision().map_or(0, |id| id.index);
        ProposalOutcome::Done(Proposed { position: Position { index, number: 0 }, outcome })
    }
}
