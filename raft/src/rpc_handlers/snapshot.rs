//! Handlers of a snapshot that comes in parts.

use super::{unavailable, wrong_channel};
use crate::consensus::types::{raft_vote, vote};
use crate::local::{LocalNode, blocking};
use crate::peer::message::{Reply, Request};
use crate::peer::node_info::NodeInfo;
use crate::snapshots::installer::SnapshotInstaller;
use crate::snapshots::receiving::Receiving;
use std::io;
use std::sync::Arc;
use storage::Vote;
use storage::disk::SpaceLevel;
use storage::snapshots::Snapshots;
use tokio::sync::Mutex;

/// Handles the parts of snapshots.
pub(crate) struct SnapshotRpc {
    pub(crate) local: Arc<LocalNode>,
    pub(crate) snapshots: Arc<dyn Snapshots>,
    pub(crate) installer: Arc<SnapshotInstaller>,
}

/// The snapshot that comes on one connection.
#[derive(Default)]
pub(crate) struct SnapshotReceiver {
    incoming: Mutex<Option<Incoming>>,
}

struct Incoming {
    leader: Vote,
    receiving: Receiving,
}

impl SnapshotRpc {
    /// Handles one part.
    pub(crate) async fn handle(
        &self,
        from: &NodeInfo,
        receiver: &SnapshotReceiver,
        request: Request,
    ) -> Reply {
        match self.part(from, receiver, request).await {
            Ok(reply) => reply,
            Err(e) => {
                tracing::warn!("cannot take the snapshot of node {}: {e}", from.node_id);
                unavailable(e)
            }
        }
    }

    async fn part(
        &self,
        from: &NodeInfo,
        receiver: &SnapshotReceiver,
        request: Request,
    ) -> io::Result<Reply> {
        let mut incoming = receiver.incoming.lock().await;
        let current = self.local.log.state().vote.unwrap_or_default();
        match request {
            Request::SnapshotBegin { vote: leader, meta } => {
                if raft_vote(current) > raft_vote(leader) {
                    return Ok(Reply::Snapshot { vote: current });
                }
                if self.local.disk.space() != SpaceLevel::Ok {
                    return Err(io::Error::other("the disk is nearly full"));
                }
                let snapshots = Arc::clone(&self.snapshots);
                *incoming = None;
                let receiving = blocking(move || Receiving::begin(meta, &snapshots)).await?;
                *incoming = Some(Incoming { leader, receiving });
                Ok(Reply::Snapshot { vote: leader })
            }
            Request::SnapshotChunks { first, chunks } => {
                let Incoming { leader, mut receiving } = incoming.take().ok_or_else(not_begun)?;
                let receiving = blocking(move || {
                    receiving.chunks(first, &chunks)?;
                    Ok(receiving)
                })
                .await?;
                *incoming = Some(Incoming { leader, receiving });
                Ok(Reply::Snapshot { vote: leader })
            }
            Request::SnapshotEnd { chunks } => {
                let Incoming { leader, receiving } = incoming.take().ok_or_else(not_begun)?;
                let (meta, staged) = blocking(move || receiving.finish(chunks)).await?;
                tracing::info!("received snapshot {} of node {}", meta.last, from.node_id);
                let own_vote = self.installer.install(leader, meta, staged).await?;
                Ok(Reply::Snapshot { vote: vote(&own_vote) })
            }
            _ => Ok(wrong_channel()),
        }
    }
}

fn not_begun() -> io::Error {
    io::Error::other("a part of a snapshot that has not begun")
}
