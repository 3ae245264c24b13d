//! The history that a writer prints, one event a line.

use super::model::Operation;
use std::io::{self, Write};
use std::str::{FromStr, SplitWhitespace};
use std::sync::{Arc, Mutex, PoisonError};
use storage::{LogId, Vote};

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryEvent {
    /// The vote that was there when the writer began.
    BaseVote(Vote),
    /// The last purged entry of then.
    BasePurged(LogId),
    /// A run of entries of then: term, first index, count.
    BaseEntries(u64, u64, u64),
    /// A snapshot that was there when the writer began.
    BaseSnapshot(LogId),
    /// The writer has opened everything and printed what it found.
    Ready,
    /// The writer is about to call the log; calls are numbered from 1.
    Try(u64, Operation),
    /// The log has acknowledged that call.
    Ok(u64),
    /// A snapshot is about to be committed.
    TrySnapshot(LogId),
    /// That snapshot is durable.
    OkSnapshot(LogId),
}

/// Prints events. Each is one unbuffered write, so that a line that was printed is never lost with the process.
#[derive(Clone)]
pub struct HistoryWriter(Arc<Mutex<Box<dyn Write + Send>>>);

impl HistoryWriter {
    pub fn new(to: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(to)))
    }

    pub fn print(&self, event: &HistoryEvent) -> io::Result<()> {
        let line = format!("{}\n", event.line());
        let mut to = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        to.write_all(line.as_bytes())?;
        to.flush()
    }
}

impl HistoryEvent {
    fn line(&self) -> String {
        let id = |word: &str, id: &LogId| format!("{word} {} {}", id.term, id.index);
        match self {
            Self::BaseVote(vote) => format!("base-vote {}", words(vote)),
            Self::BasePurged(purged) => id("base-purged", purged),
            Self::BaseEntries(term, first, count) => format!("base-entries {term} {first} {count}"),
            Self::Try(number, Operation::Append { term, first, count }) => {
                format!("try {number} append {term} {first} {count}")
            }
            Self::Try(number, Operation::Vote(vote)) => format!("try {number} vote {}", words(vote)),
            Self::Try(number, Operation::TruncateAfter(last)) => id(&format!("try {number} truncate"), last),
            Self::Try(number, Operation::Purge(upto)) => id(&format!("try {number} purge"), upto),
            Self::Ok(number) => format!("ok {number}"),
            Self::BaseSnapshot(last) => id("base-snapshot", last),
            Self::Ready => "ready".to_owned(),
            Self::TrySnapshot(last) => id("try-snapshot", last),
            Self::OkSnapshot(last) => id("ok-snapshot", last),
        }
    }

    /// Reads a line. `None` for the test runner's output and for a line that is cut short.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let event = match words.next()? {
            "base-vote" => Self::BaseVote(vote(&mut words)?),
            "base-purged" => Self::BasePurged(log_id(&mut words)?),
            "base-entries" => {
                Self::BaseEntries(number(&mut words)?, number(&mut words)?, number(&mut words)?)
            }
            "try" => Self::Try(number(&mut words)?, operation(&mut words)?),
            "ok" => Self::Ok(number(&mut words)?),
            "base-snapshot" => Self::BaseSnapshot(log_id(&mut words)?),
            "ready" => Self::Ready,
            "try-snapshot" => Self::TrySnapshot(log_id(&mut words)?),
            "ok-snapshot" => Self::OkSnapshot(log_id(&mut words)?),
            _ => return None,
        };
        words.next().is_none().then_some(event)
    }

    /// All events of a text, but for a last line without its end.
    pub fn parse_all(text: &str) -> Vec<Self> {
        let whole = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
        whole.lines().filter_map(Self::parse).collect()
    }
}

fn number<T: FromStr>(words: &mut SplitWhitespace<'_>) -> Option<T> {
    words.next()?.parse().ok()
}

fn log_id(words: &mut SplitWhitespace<'_>) -> Option<LogId> {
    Some(LogId { term: number(words)?, index: number(words)? })
}

fn operation(words: &mut SplitWhitespace<'_>) -> Option<Operation> {
    Some(match words.next()? {
        "append" => Operation::Append { term: number(words)?, first: number(words)?, count: number(words)? },
        "vote" => Operation::Vote(vote(words)?),
        "truncate" => Operation::TruncateAfter(log_id(words)?),
        "purge" => Operation::Purge(log_id(words)?),
        _ => return None,
    })
}

fn vote(words: &mut SplitWhitespace<'_>) -> Option<Vote> {
    Some(Vote { term: number(words)?, node: number(words)?, committed: number(words)? })
}

fn words(vote: &Vote) -> String {
    format!("{} {} {}", vote.term, vote.node, vote.committed)
}
