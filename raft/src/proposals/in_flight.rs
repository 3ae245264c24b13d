//! Commands that are proposed and not applied, and the waiters of their outcomes.

use super::outcome::ProposalOutcome;
use super::queue::Waiter;
use crate::api::Proposed;
use crate::consensus::types::{EntryOutcomes, Types};
use openraft::errors::ClientWriteError;
use openraft::raft::ClientWriteResult;
use openraft::type_config::alias::OneshotReceiverOf;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use storage::command::Name;
use storage::removed::RemovedBrokers;
use storage::{Change, Position};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Commands that are proposed and not applied. Clones are the same.
#[derive(Default, Clone)]
pub(crate) struct InFlight {
    changes: Arc<Mutex<Changes>>,
}

impl InFlight {
    /// Exclusive access.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes changes off, and gives each waiter its outcome.
    pub(crate) fn finish(&self, outcomes: impl Iterator<Item = (u128, ProposalOutcome<Proposed>)>) {
        let mut changes = self.lock();
        for (hash, outcome) in outcomes {
            for waiter in changes.remove(hash) {
                notify(waiter, outcome.clone());
            }
        }
    }
}

/// Gives a waiter its outcome.
pub(crate) fn notify(waiter: Waiter, outcome: ProposalOutcome<Proposed>) {
    // The caller may have given up.
    let _ = waiter.send(outcome);
}

/// The changes in flight.
#[derive(Default)]
pub(crate) struct Changes {
    /// Hash of a change → the waiters of its outcome.
    waiters: HashMap<u128, Vec<Waiter>>,
    /// Hash of a removal, and the brokers that it removes.
    removals: Vec<(u128, RemovedBrokers)>,
    /// Hash of a put → its KV namespace, and what it adds to that.
    kv_puts: HashMap<u128, (Name, usize)>,
    /// KV namespace → what all of them add to it.
    kv_growth: HashMap<Name, usize>,
}

impl Changes {
    /// Whether the change registers a broker that a removal in flight removes.
    pub(crate) fn remove_what_it_registers(&self, change: &Change) -> bool {
        self.removals.iter().any(|(_, removed)| change.registers_one_of(removed))
    }

    /// What the changes in flight add to the KV namespace of a change.
    pub(crate) fn kv_growth_beside(&self, change: &Change) -> usize {
        let Some((namespace, _)) = change.kv_growth() else { return 0 };
        self.kv_growth.get(namespace).copied().unwrap_or_default()
    }

    /// Lets a waiter wait with those of an equal change in flight. Gives it back if there is none.
    pub(crate) fn join(&mut self, hash: u128, waiter: Waiter) -> Option<Waiter> {
        match self.waiters.get_mut(&hash) {
            Some(others) => {
                others.push(waiter);
                None
            }
            None => Some(waiter),
        }
    }

    /// Adds a change. Gives the hash to find it by, which is another one when an equal change is in flight already.
    pub(crate) fn add(&mut self, mut hash: u128, change: &Change, waiter: Waiter) -> u128 {
        while self.waiters.contains_key(&hash) {
            hash = hash.wrapping_add(1);
        }
        self.waiters.insert(hash, vec![waiter]);
        self.removals.extend(change.removed_brokers().map(|removed| (hash, removed)));
        if let Some((namespace, bytes)) = change.kv_growth() {
            *self.kv_growth.entry(namespace.clone()).or_default() += bytes;
            self.kv_puts.insert(hash, (namespace.clone(), bytes));
        }
        hash
    }

    fn remove(&mut self, hash: u128) -> Vec<Waiter> {
        self.removals.retain(|(of, _)| *of != hash);
        if let Some((namespace, bytes)) = self.kv_puts.remove(&hash)
            && let Entry::Occupied(mut growth) = self.kv_growth.entry(namespace)
        {
            *growth.get_mut() -= bytes;
            if *growth.get() == 0 {
                growth.remove();
            }
        }
        self.waiters.remove(&hash).unwrap_or_default()
    }
}

/// An entry that was proposed.
pub(crate) struct ProposedEntry {
    /// Its result.
    pub(crate) done: OneshotReceiverOf<Types, ClientWriteResult<Types>>,
    /// The hashes of its commands, in order.
    pub(crate) hashes: Vec<u128>,
    /// Limits the entries in flight.
    pub(crate) permit: OwnedSemaphorePermit,
}

/// Finishes entry after entry, in the order of the log.
///
/// To ensure correctness: a caller that has the outcome of its command finds no change of an earlier entry in flight.
/// Otherwise its next command could join a change that its own one has overwritten since, and get that change's outcome.
pub(crate) async fn finish_in_order(
    in_flight: InFlight,
    mut proposed: mpsc::UnboundedReceiver<ProposedEntry>,
) {
    while let Some(ProposedEntry { done, hashes, permit }) = proposed.recv().await {
        let outcomes = outcomes(done.await.ok(), hashes.len());
        in_flight.finish(hashes.into_iter().zip(outcomes));
        drop(permit);
    }
}

/// One outcome per command of an entry.
fn outcomes(result: Option<ClientWriteResult<Types>>, commands: usize) -> Vec<ProposalOutcome<Proposed>> {
    let same = match result {
        Some(Ok(response)) => {
            let index = response.log_id.index();
            let EntryOutcomes(outcomes) = response.data;
            let numbered = (0..).zip(outcomes);
            let done: Vec<_> = numbered
                .map(|(number, outcome)| Proposed { position: Position { index, number }, outcome })
                .map(ProposalOutcome::Done)
                .collect();
            if done.len() == commands {
                return done;
            }
            ProposalOutcome::Unknown(format!("{} outcomes for {commands} commands", done.len()))
        }
        Some(Err(ClientWriteError::ForwardToLeader(_))) => not_leader(),
        Some(Err(ClientWriteError::LogEntryDiscarded(_))) => {
            ProposalOutcome::Unknown("leadership changed while it was under way".into())
        }
        Some(Err(other)) => ProposalOutcome::Refused(other.to_string()),
        None => ProposalOutcome::Unknown("the node stopped while it was under way".into()),
    };
    vec![same; commands]
}

/// This node does not lead.
pub(crate) fn not_leader() -> ProposalOutcome<Proposed> {
    ProposalOutcome::NotLeader("this node does not lead".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft::impls::OneshotResponder;
    use tokio::sync::{Semaphore, oneshot};

    #[tokio::test]
    async fn a_later_entry_is_finished_only_after_an_earlier_one() {
        let in_flight = InFlight::default();
        let (sender, proposed) = mpsc::unbounded_channel();
        let permits = Arc::new(Semaphore::new(2));
        let (mut responders, mut outcomes) = (Vec::new(), Vec::new());
        for hash in [1, 2] {
            let (responder, done) = OneshotResponder::<Types, ClientWriteResult<Types>>::new_pair();
            let (waiter, outcome) = oneshot::channel();
            in_flight.lock().waiters.insert(hash, vec![waiter]);
            let permit = Arc::clone(&permits).acquire_owned().await.unwrap();
            assert!(sender.send(ProposedEntry { done, hashes: vec![hash], permit }).is_ok());
            responders.push(responder);
            outcomes.push(outcome);
        }
        let task = tokio::spawn(finish_in_order(in_flight.clone(), proposed));
        // The second entry is done first, the first one last.
        drop(responders.pop());
        tokio::task::yield_now().await;
        assert!(in_flight.lock().waiters.contains_key(&2), "the second was finished before the first");
        drop(responders.pop());
        for outcome in outcomes {
            assert!(matches!(outcome.await.unwrap(), ProposalOutcome::Unknown(_)));
        }
        drop(sender);
        task.await.unwrap();
        assert!(in_flight.lock().waiters.is_empty());
        assert_eq!(permits.available_permits(), 2);
    }
}
