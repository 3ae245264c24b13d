//! Commands that wait to be proposed, and which of them share an entry.

use storage::{Command, Outcome, Position};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// Most bytes of commands in an entry.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// A larger command is an entry of its own.
const ALONE_BYTES: usize = 256 << 10;

/// A command that waits to be proposed.
pub(crate) struct Waiting {
    /// The command.
    pub(crate) command: Command,
    /// Its size, encoded.
    pub(crate) bytes: usize,
    /// Hash of its change: the same change has the same.
    pub(crate) hash: u128,
    /// The only term in which it may be proposed.
    pub(crate) term: Option<u64>,
    /// It is dropped when this has passed.
    pub(crate) deadline: Instant,
    /// Where the answer goes.
    pub(crate) answer: oneshot::Sender<Answered>,
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answered {
    /// Applied, or found to change nothing.
    Done { position: Position, outcome: Outcome },
    /// Not appended, and will not be.
    Refused(String),
    /// Not appended: this node does not lead (any more, yet).
    NotLeader,
    /// Appended, perhaps committed.
    Unknown(String),
}

/// The queue in front of the log.
pub(crate) struct Queue {
    waiting: mpsc::Receiver<Waiting>,
    /// Did not fit the last entry.
    held: Option<Waiting>,
    commands_max: usize,
}

impl Queue {
    /// Entries have so many commands at most.
    pub(crate) fn new(waiting: mpsc::Receiver<Waiting>, commands_max: usize) -> Self {
        Self { waiting, held: None, commands_max }
    }

    /// Waits for a command, and takes along what waits behind it, up to one entry. `None` when the queue has ended.
    /// Nothing is lost when this is dropped while it waits.
    pub(crate) async fn next(&mut self) -> Option<Vec<Waiting>> {
        let first = match self.held.take() {
            Some(held) => held,
            None => self.waiting.recv().await?,
        };
        let (mut bytes, alone) = (first.bytes, first.bytes > ALONE_BYTES);
        let mut batch = vec![first];
        while !alone && batch.len() < self.commands_max {
            let Ok(next) = self.waiting.try_recv() else { break };
            if next.bytes > ALONE_BYTES || bytes + next.bytes > BATCH_BYTES_MAX {
                self.held = Some(next);
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
            let (answer, _) = oneshot::channel();
            let waiting = Waiting { command, bytes, hash: 0, term: None, deadline: Instant::now(), answer };
            assert!(sender.try_send(waiting).is_ok());
        }
        Queue::new(waiting, commands_max)
    }

    async fn entries(sizes: &[usize], commands_max: usize) -> Vec<Vec<usize>> {
        let mut queue = queue_of(sizes, commands_max);
        let mut entries = Vec::new();
        while let Some(batch) = queue.next().await {
            entries.push(batch.iter().map(|waiting| waiting.bytes).collect());
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
