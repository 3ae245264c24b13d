//! The way into the log: one task collects waiting commands into entries.
//!
//! - Each command keeps its own outcome, although many share an entry.
//! - A change that is already on its way is not proposed again: who asks for it waits with the first.
//! - A change that would change nothing is answered from the leader's table, if its lease is valid.
//! - A change that brings back what a change on its way removes is proposed in any case, behind it: the table of now says
//!   nothing of it, and who is told success would be gone. Which those are, `storage` knows.
//! - Whose deadline has passed is dropped before anything is appended.

use crate::consensus::types::{Answers, Batch, Types};
use crate::leader::core::Core;
use crate::proposals::queue::{Answered, Queue, Waiting};
use openraft::errors::ClientWriteError;
use openraft::impls::OneshotResponder;
use openraft::raft::ClientWriteResult;
use openraft::type_config::alias::OneshotReceiverOf;
use openraft::vote::leader_id_std::CommittedLeaderId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use storage::removed::RemovedBrokers;
use storage::route_info::Prepared;
use storage::{Change, Command, Position, format};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;

/// A larger command is refused.
pub(crate) const COMMAND_BYTES_MAX: usize = 24 << 20;
/// Commands that may wait; more wait outside.
pub(crate) const QUEUE_MAX: usize = 65_536;
/// Entries that may be on their way at once.
const IN_FLIGHT_MAX: usize = 2;

/// Shared with the task that answers.
type InFlight = Arc<Mutex<OnTheirWay>>;

/// Changes that are proposed and not yet answered.
#[derive(Default)]
struct OnTheirWay {
    /// Hash of a change → who waits for the outcome.
    asking: HashMap<u128, Vec<oneshot::Sender<Answered>>>,
    /// Hash of a removal, and what it removes.
    removals: Vec<(u128, RemovedBrokers)>,
}

impl OnTheirWay {
    /// Whether the change brings back what a removal on its way takes.
    fn removes(&self, change: &Change) -> bool {
        self.removals.iter().any(|(_, removed)| change.registers_one_of(removed))
    }

    /// Adds a change. Gives the hash to find it by, which is another when this very change is on its way already.
    fn add(&mut self, mut hash: u128, change: &Change, answer: oneshot::Sender<Answered>) -> u128 {
        while self.asking.contains_key(&hash) {
            hash = hash.wrapping_add(1);
        }
        self.asking.insert(hash, vec![answer]);
        self.removals.extend(change.removed_brokers().map(|removed| (hash, removed)));
        hash
    }

    /// Takes a change off.
    fn remove(&mut self, hash: u128) -> Vec<oneshot::Sender<Answered>> {
        self.removals.retain(|(of, _)| *of != hash);
        self.asking.remove(&hash).unwrap_or_default()
    }
}

/// An entry on its way.
struct Sent {
    done: OneshotReceiverOf<Types, ClientWriteResult<Types>>,
    hashes: Vec<u128>,
    slot: OwnedSemaphorePermit,
}

/// Runs until the node stops or the queue ends.
pub(crate) async fn run(core: Arc<Core>, queue: mpsc::Receiver<Waiting>) {
    let (sent, on_their_way) = mpsc::unbounded_channel();
    let mut batcher = Batcher {
        slots: Arc::new(Semaphore::new(IN_FLIGHT_MAX)),
        in_flight: InFlight::default(),
        born_in: None,
        sent,
        queue: Queue::new(queue, core.context.options.batch_commands_max),
        core,
    };
    let stop = batcher.core.context.stop.clone();
    let in_flight = Arc::clone(&batcher.in_flight);
    batcher.core.context.tasks.spawn(answer_in_order(in_flight, on_their_way));
    tokio::select! {
        biased;
        () = batcher.run() => {}
        () = stop.cancelled() => {}
    }
}

/// Answers entry after entry, in the order of the log.
///
/// To ensure correctness: who has the answer of an entry finds no change of an earlier one still in flight. Otherwise
/// it could join one that its own change has overwritten since, and take that one's outcome for its own.
async fn answer_in_order(in_flight: InFlight, mut sent: mpsc::UnboundedReceiver<Sent>) {
    while let Some(Sent { done, hashes, slot }) = sent.recv().await {
        let answers = answers(done.await.ok(), hashes.len());
        finish(&in_flight, hashes.into_iter().zip(answers));
        drop(slot);
    }
}

struct Batcher {
    core: Arc<Core>,
    queue: Queue,
    slots: Arc<Semaphore>,
    /// Entries, in the order of the log.
    sent: mpsc::UnboundedSender<Sent>,
    in_flight: InFlight,
    /// The term in which the cluster's first commands were proposed.
    born_in: Option<u64>,
}

/// An entry in the making.
#[derive(Default)]
struct Draft {
    commands: Vec<Command>,
    hashes: Vec<u128>,
}

impl Batcher {
    async fn run(&mut self) {
        let mut leadership = self.core.leadership.subscribe();
        loop {
            let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else { return };
            self.propose_birth().await;
            tokio::select! {
                biased;
                batch = self.queue.next() => match batch {
                    Some(batch) => self.propose(batch, slot).await,
                    None => return,
                },
                _ = leadership.changed() => {}
            }
        }
    }

    /// The first commands of a new cluster, once per term until they are applied. Also when there are none: a leader
    /// with others, later, must find the cluster born.
    async fn propose_birth(&mut self) {
        let leadership = self.core.leadership();
        let birth = &self.core.context.options.birth;
        if !leadership.leading || !self.core.published.is_fresh() || self.born_in == Some(leadership.term) {
            return;
        }
        self.born_in = Some(leadership.term);
        tracing::info!("the cluster begins with {} commands", birth.len());
        match format::encode("log entry", birth) {
            Ok(bytes) => {
                let write = self.core.raft.write(Batch(bytes.into()));
                if let Err(e) = write.with_leader(CommittedLeaderId::new(leadership.term)).await {
                    tracing::error!("the cluster's first commands are not proposed: {e}");
                }
            }
            Err(e) => tracing::error!("the cluster's first commands cannot be encoded: {e}"),
        }
    }

    async fn propose(&mut self, batch: Vec<Waiting>, slot: OwnedSemaphorePermit) {
        let leadership = self.core.leadership();
        let handed_over = self.core.handed_over.load(std::sync::atomic::Ordering::Acquire);
        if !leadership.leading || handed_over == leadership.term {
            batch.into_iter().for_each(|waiting| respond(waiting.answer, Answered::NotLeader));
            return;
        }
        if let Some(reason) = self.core.refuses_appends() {
            batch.into_iter().for_each(|waiting| respond(waiting.answer, Answered::Refused(reason.clone())));
            return;
        }
        let draft = self.draft(batch, leadership.term);
        if draft.commands.is_empty() {
            return;
        }
        let encoded = format::encode("log entry", &draft.commands);
        let bytes = match encoded {
            Ok(bytes) => bytes,
            Err(e) => return self.finish(&draft.hashes, &Answered::Refused(e.to_string())),
        };
        let (responder, done) = OneshotResponder::new_pair();
        let write = self.core.raft.write(Batch(bytes.into())).responder(responder);
        // Only in the term that the draft was made for: what it was checked against may differ in another.
        if let Err(e) = write.with_leader(CommittedLeaderId::new(leadership.term)).await {
            return self.finish(&draft.hashes, &Answered::Refused(e.to_string()));
        }
        if let Err(mpsc::error::SendError(sent)) = self.sent.send(Sent { done, hashes: draft.hashes, slot }) {
            self.finish(&sent.hashes, &Answered::Unknown("the node stopped while it was under way".into()));
        }
    }

    /// Sorts out what need not, or must not, go into the entry.
    fn draft(&self, batch: Vec<Waiting>, term: u64) -> Draft {
        let table = self.core.published.table();
        let now = Instant::now();
        let mut draft = Draft::default();
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        for waiting in batch {
            if waiting.deadline <= now {
                respond(waiting.answer, Answered::Refused("its time was over before it was proposed".into()));
                continue;
            }
            if waiting.term.is_some_and(|only| only != term) {
                respond(waiting.answer, Answered::Refused(format!("decided in another term than {term}")));
                continue;
            }
            let prepared = if in_flight.removes(&waiting.command.change) {
                Prepared::Propose(Box::new(waiting.command))
            } else if let Some(others) = in_flight.asking.get_mut(&waiting.hash) {
                others.push(waiting.answer);
                continue;
            } else {
                table.prepare(waiting.command)
            };
            match prepared {
                Prepared::Propose(command) => {
                    draft.hashes.push(in_flight.add(waiting.hash, &command.change, waiting.answer));
                    draft.commands.push(*command);
                }
                Prepared::Done(outcome) => {
                    // Without a lease another leader may have changed what this table says.
                    let answered = if self.core.lease() == Some(term) {
                        let index = table.revision().map_or(0, |id| id.index);
                        Answered::Done { position: Position { index, number: 0 }, outcome }
                    } else {
                        Answered::NotLeader
                    };
                    respond(waiting.answer, answered);
                }
            }
        }
        draft
    }

    fn finish(&self, hashes: &[u128], answered: &Answered) {
        finish(&self.in_flight, hashes.iter().map(|hash| (*hash, answered.clone())));
    }
}

fn respond(answer: oneshot::Sender<Answered>, answered: Answered) {
    // Who asked may have given up.
    let _ = answer.send(answered);
}

fn finish(in_flight: &InFlight, answers: impl Iterator<Item = (u128, Answered)>) {
    let mut in_flight = in_flight.lock().unwrap_or_else(PoisonError::into_inner);
    for (hash, answered) in answers {
        for answer in in_flight.remove(hash) {
            respond(answer, answered.clone());
        }
    }
}

/// One answer per command of an entry.
fn answers(result: Option<ClientWriteResult<Types>>, commands: usize) -> Vec<Answered> {
    let same = match result {
        Some(Ok(response)) => {
            let index = response.log_id.index();
            let Answers(outcomes) = response.data;
            let answers: Vec<Answered> = (0..)
                .zip(outcomes)
                .map(|(number, outcome)| Answered::Done { position: Position { index, number }, outcome })
                .collect();
            if answers.len() == commands {
                return answers;
            }
            Answered::Unknown(format!("{} outcomes for {commands} commands", answers.len()))
        }
        Some(Err(ClientWriteError::ForwardToLeader(_))) => Answered::NotLeader,
        Some(Err(ClientWriteError::LogEntryDiscarded(_))) => {
            Answered::Unknown("leadership changed while it was under way".into())
        }
        Some(Err(other)) => Answered::Refused(other.to_string()),
        None => Answered::Unknown("the node stopped while it was under way".into()),
    };
    vec![same; commands]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_later_entry_is_answered_only_after_an_earlier_one() {
        let in_flight = InFlight::default();
        let (sender, sent) = mpsc::unbounded_channel();
        let slots = Arc::new(Semaphore::new(2));
        let (mut responders, mut answers) = (Vec::new(), Vec::new());
        for hash in [1, 2] {
            let (responder, done) = OneshotResponder::<Types, ClientWriteResult<Types>>::new_pair();
            let (answer, answered) = oneshot::channel();
            in_flight.lock().unwrap().asking.insert(hash, vec![answer]);
            let slot = Arc::clone(&slots).acquire_owned().await.unwrap();
            assert!(sender.send(Sent { done, hashes: vec![hash], slot }).is_ok());
            responders.push(responder);
            answers.push(answered);
        }
        let task = tokio::spawn(answer_in_order(Arc::clone(&in_flight), sent));
        // The second entry is done first, the first one last.
        drop(responders.pop());
        tokio::task::yield_now().await;
        assert!(
            in_flight.lock().unwrap().asking.contains_key(&2),
            "the second was answered before the first"
        );
        drop(responders.pop());
        for answered in answers {
            assert!(matches!(answered.await.unwrap(), Answered::Unknown(_)));
        }
        drop(sender);
        task.await.unwrap();
        assert!(in_flight.lock().unwrap().asking.is_empty());
        assert_eq!(slots.available_permits(), 2);
    }
}
