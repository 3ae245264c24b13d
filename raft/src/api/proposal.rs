//! What proposals and read barriers give.

use storage::{Outcome, Position};

/// A command that was committed, and applied on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposed {
    /// Position of the command in the log. For a command that the leader found to change nothing: its applied revision.
    pub position: Position,
    /// What apply made of it.
    pub outcome: Outcome,
}

/// Why a command was not carried out, or may not have been.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// It was certainly not carried out and will not be.
    #[error("refused: {0}")]
    Refused(String),
    /// It may have been, or may yet be, carried out: it was sent or appended, and no answer came in time.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

/// Why a read cannot be answered as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No leader confirmed the read in time.
    #[error("no leader confirmed the read in time")]
    NoLeader,
    /// This node did not reach the revision in time.
    #[error("revision {wanted} not reached in time, this node is at {applied}")]
    Behind {
        /// The revision that was asked for.
        wanted: u64,
        /// The revision that this node has reached.
        applied: u64,
    },
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
}
