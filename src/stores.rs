//! A node's data directory, opened: what consensus stands on.

use crate::run::RunError;
use raft::{Directory, NodeId};
use std::path::Path;
use std::sync::Arc;
use storage::log::Log;
use storage::runtime::Runtime;
use storage::snapshots::Snapshots;

/// Log, snapshots, and what the directory knows of itself.
pub(crate) struct Stores {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) snapshots: Arc<dyn Snapshots>,
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) directory_id: u128,
}

pub(crate) async fn open(
    _data: &Path,
    _node_id: NodeId,
    _runtime: Arc<dyn Runtime>,
) -> Result<Stores, RunError> {
    Err(RunError::Refused("not built yet".into()))
}

impl Stores {
    /// Ends the log's writer.
    pub(crate) async fn close(&self) {
        self.log.close();
    }
}
