//! Commands that wait to be proposed, and which of them share an entry.

use super::outcome::ProposalOutcome;
use crate::api::Proposed;
use storage::Command;
use storage::limits::{ALONE_BYTES, BATCH_BYTES_MAX};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// Commands that may wait in the queue; more wait in front of it, until their deadlines.
pub(crate) const QUEUE_MAX: usize = 65_536;

/// A command that waits to be proposed.
pub(crate) struct QueuedCommand {
    /// The command.
    pub(crate) command: Command,
    /// Its size, encoded.
    pub(crate) bytes: usize,
    /// Hash of its change: equal changes have equal hashes.
    pub(crate) hash: u128,
    /// The only term in which it may be proposed.
    pub(crate) term: Option<u64>,
    /// The batcher drops it when this has passed.
    pub(crate) deadline: Instant,
    /// Gets the outcome.
    pub(crate) waiter: Waiter,
}

/// Gets the outcome of a command.
pub(crate) type Waiter = oneshot::Sender<ProposalOutcome<Proposed>>;

/// The queue in front of the log.
pub(crate) struct Queue {
    waiting: mpsc::Receiver<QueuedCommand>,
    /// It did not fit into the last entry.
    left_over: Option<QueuedCommand>,
    commands_max: usize,
}

impl Queue {
    /// A queue whose entries have `commands_max` commands at most.
    pub(crate) fn new(waiting: mpsc::Receiver<QueuedCommand>, commands_max: usize) -> Self {
        Self { waiting, left_over: None, commands_max }
    }

    /// Waits for a command, and takes along those behind it, up to one entry. `None` when the queue has ended.
    /// Cancel safe: a call that is dropped while it waits loses no command.
    pub(crate) async fn next(&mut self) -> Option<Vec<QueuedCommand>> {
        let first = match self.left_over.take() {
            Some(left_over) => left_over,
            None => self.waiting.recv().await?,
        };
        let (mut bytes, alone) = (first.bytes, first.bytes > ALONE_BYTES);
        let mut batch = vec![first];
        while !alone && batch.len() < self.commands_max {
            let Ok(next) = self.waiting.try_recv() else { break };
            if next.bytes > ALONE_BYTES || bytes + next.bytes > BATCH_BYTES_MAX {
                self.left_over = Some(next);
                break;
            }
            bytes += next.bytes;
            batch.push(next);
        }
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::Change;
    use storage::command::{Origin, PutKv};

    /// A queue that has commands of these sizes and then ends.
    fn queue_of(sizes: &[usize], commands_max: usize) -> Queue {
        let (sender, waiting) = mpsc::channel(sizes.len().max(1));
        for &bytes in sizes {
            let change = Change::PutKv(PutKv { namespace: "n".into(), key: "k".into(), value: None });
            let command = Command { origin: Origin::default(), change };
            let (waiter, _) = oneshot::channel();
            let queued =
                QueuedCommand { command, bytes, hash: 0, term: None, deadline: Instant::now(), waiter };
            assert!(sender.try_send(queued).is_ok());
        }
        Queue::new(waiting, commands_max)
    }

    async fn entries(sizes: &[usize], commands_max: usize) -> Vec<Vec<usize>> {
        let mut queue = queue_of(sizes, commands_max);
        let mut entries = Vec::new();
        while let Some(batch) = queue.next().await {
            entries.push(batch.iter().map(|queued| queued.bytes).collect());
        }
        entries
    }

    #[tokio::test]
    async fn a_large_command_is_an_entry_of_its_own() {
        let large = ALONE_BYTES + 1;
        assert_eq!(
            entries(&[10, large, 20, 30, large, large], 512).await,
            [vec![10], vec![large], vec![20, 30], vec![large], vec![large]]
        );
        assert_eq!(entries(&[ALONE_BYTES, 10], 512).await, [[ALONE_BYTES, 10]], "not larger");
    }

    #[tokio::test]
    async fn an_entry_ends_at_its_bytes_and_its_commands() {
        let quarter = BATCH_BYTES_MAX / 4;
        assert_eq!(
            entries(&[quarter, quarter, quarter, quarter, 1, 2], 512).await,
            [vec![quarter; 4], vec![1, 2]]
        );
        assert_eq!(entries(&[1, 2, 3, 4, 5], 2).await, [vec![1, 2], vec![3, 4], vec![5]]);
    }
}
