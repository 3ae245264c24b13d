//! What a log holds after some operations.

use super::content::entry;
use std::collections::BTreeMap;
use std::io;
use storage::log::Log;
use storage::{LogId, Vote};

/// One call of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// So many entries of one term from an index on.
    Append { term: u64, first: u64, count: u64 },
    /// A vote.
    Vote(Vote),
    /// Everything after it goes.
    TruncateAfter(LogId),
    /// Everything up to and with it goes.
    Purge(LogId),
}

/// The state of a log, without what the entries carry: that follows from their ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    pub vote: Option<Vote>,
    pub purged: Option<LogId>,
    /// Index to term.
    pub terms: BTreeMap<u64, u64>,
}

impl Model {
    /// Carries an operation out.
    pub fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Append { term, first, count } => {
                self.terms.extend((first..first + count).map(|index| (index, term)));
            }
            Operation::Vote(vote) => self.vote = Some(vote),
            Operation::TruncateAfter(last) => self.terms.retain(|index, _| *index <= last.index),
            Operation::Purge(upto) => {
                self.terms.retain(|index, _| *index > upto.index);
                self.purged = Some(upto);
            }
        }
    }

    /// The last entry, or the last purged one.
    pub fn last(&self) -> Option<LogId> {
        let last = self.terms.last_key_value().map(|(&index, &term)| LogId { term, index });
        last.or(self.purged)
    }

    /// The entry at an index.
    pub fn id(&self, index: u64) -> Option<LogId> {
        self.terms.get(&index).map(|&term| LogId { term, index })
    }

    /// Runs of entries of one term: term, first index, count.
    pub fn runs(&self) -> Vec<(u64, u64, u64)> {
        let mut runs: Vec<(u64, u64, u64)> = Vec::new();
        for (&index, &term) in &self.terms {
            match runs.last_mut() {
                Some((last, first, count)) if *last == term && *first + *count == index => *count += 1,
                _ => runs.push((term, index, 1)),
            }
        }
        runs
    }

    /// Reads a log whole, and compares each entry with what it must carry.
    pub fn read(log: &dyn Log) -> io::Result<Self> {
        const READ_BYTES_MAX: usize = 4 << 20;
        let state = log.state();
        let mut model = Self { vote: state.vote, purged: state.purged, terms: BTreeMap::new() };
        let mut next = state.purged.map_or(0, |purged| purged.index + 1);
        let end = state.last.map_or(0, |last| last.index + 1);
        while next < end {
            for found in log.read(next..end, READ_BYTES_MAX)? {
                if found.id.index != next || found != entry(found.id) {
                    return Err(io::Error::other(format!("entry {} at index {next} is another", found.id)));
                }
                model.terms.insert(next, found.id.term);
                next += 1;
            }
        }
        if model.last() != state.last {
            return Err(io::Error::other(format!("the log says {state:?} and holds {:?}", model.last())));
        }
        if state.committed > state.last {
            return Err(io::Error::other(format!("committed beyond the end: {state:?}")));
        }
        Ok(model)
    }
}
