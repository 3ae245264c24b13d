//! Log ids and votes: what Raft must not forget in a crash.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Names a log entry: the term of the leader that wrote it and its index. Ordered by term, then index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogId {
    /// Term of the leader that wrote the entry.
    pub term: u64,
    /// Index of the entry, from 0.
    pub index: u64,
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.term, self.index)
    }
}

/// The last vote of this node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Vote {
    /// The term voted in.
    pub term: u64,
    /// The node voted for.
    pub node: u64,
    /// Whether a quorum granted it: that node is (or was) the leader of the term.
    pub committed: bool,
}
