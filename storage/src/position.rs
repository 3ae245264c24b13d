//! Where in the log something happened.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The place of one command: the index of its log entry and its number within that entry.
///
/// Positions are totally ordered by the log. The position of the command that created or last changed a
/// broker's registration is that broker's *incarnation*.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// Index of the log entry; the first entry of a cluster has index 0.
    pub index: u64,
    /// Number of the command within its entry, from 0.
    pub number: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.number)
    }
}

/// Where a command is being applied: its position, and the term of its entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct At {
    /// Term of the leader that wrote the entry.
    pub term: u64,
    /// Index of the entry.
    pub index: u64,
    /// Number of the command within the entry.
    pub number: u32,
}

impl At {
    /// The position, without the term.
    #[must_use]
    pub fn position(self) -> Position {
        Position { index: self.index, number: self.number }
    }
}
