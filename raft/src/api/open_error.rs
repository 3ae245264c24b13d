//! Why a node cannot start.

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data directory or the settings do not fit. Exit code 1.
    #[error("{0}")]
    Refused(String),
    /// The peer port cannot be listened on. Exit code 3.
    #[error("cannot listen for peers on {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// Raft or the disk failed. Exit code 4.
    #[error("{0}")]
    Failed(String),
}
