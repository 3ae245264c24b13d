//! The errors that end a node.

/// Why a node did not start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The data directory or the settings do not fit. Exit code 1.
    #[error("{0}")]
    Refused(String),
    /// A port cannot be used. Exit code 3.
    #[error("cannot listen: {0}")]
    Listen(String),
    /// Raft or the disk failed. Exit code 4.
    #[error("{0}")]
    Failed(String),
}

impl From<raft::OpenError> for RunError {
    fn from(error: raft::OpenError) -> Self {
        match error {
            raft::OpenError::Refused(why) => Self::Refused(why),
            raft::OpenError::Listen { .. } => Self::Listen(error.to_string()),
            raft::OpenError::Failed(why) => Self::Failed(why),
        }
    }
}
