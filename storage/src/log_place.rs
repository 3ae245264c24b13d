//! A place in the log's files, and the torn tail that was truncated there.

use crate::LogId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A place in the log's files. Ordered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LogPlace {
    /// Number of the segment, from 1.
    pub segment: u64,
    /// Offset in its file, bytes.
    pub offset: u64,
}

impl fmt::Display for LogPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {} offset {}", self.segment, self.offset)
    }
}

/// A torn tail that was truncated when the log was opened: a write that had not finished when the power went or the
/// process was killed. Nothing in it had been acknowledged, unless the disk lied about a sync.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TruncatedTail {
    /// Where the log ends since.
    pub place: LogPlace,
    /// How many bytes were removed.
    pub bytes: u64,
    /// The last entry that was kept.
    pub last: Option<LogId>,
    /// Name of the file in the log's directory that keeps a copy.
    pub copy: String,
}
