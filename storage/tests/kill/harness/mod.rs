//! A writer that prints the history of its calls, and a checker that compares the disk with that history.
//!
//! The writer prints each operation before it calls the log (`try`), and each acknowledgement (`ok`). After a crash the
//! disk must hold the state after some number of operations: at least all that were acknowledged, at most all that were
//! tried, in their order, the last one in part only where it may be (entries of one append).

pub mod check;
mod content;
mod history;
pub mod model;
pub mod write;

/// Which stores are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Snapshots.
    pub snapshots: bool,
    /// Log and vote.
    pub log: bool,
}

impl Default for Parts {
    fn default() -> Self {
        Self { snapshots: true, log: true }
    }
}

impl Parts {
    /// Only one of them.
    #[must_use]
    pub fn only(name: &str) -> Option<Self> {
        match name {
            "snapshots" => Some(Self { snapshots: true, log: false }),
            "log" => Some(Self { snapshots: false, log: true }),
            _ => None,
        }
    }
}
