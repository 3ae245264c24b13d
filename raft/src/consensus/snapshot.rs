//! Snapshots: made from the applied state, read back, and as openraft passes them on. All of it blocks: call it on a
//! blocking thread.

use super::applied_state::AppliedState;
use super::membership_codec;
use super::types::{RaftSnapshotMeta, log_id, raft_log_id};
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use storage::RouteInfo;
use storage::route_info::Loader;
use storage::snapshots::{SnapshotMeta, SnapshotWriter, Snapshots};

/// A snapshot as openraft passes it on.
pub(crate) enum SnapshotData {
    /// Complete in a store, to be read from there.
    Stored(SnapshotMeta, Arc<dyn Snapshots>),
    /// Received from the leader; it does not count in this node's store yet.
    Staged(Box<Staged>),
    /// Of a state in which nothing has happened; stored nowhere.
    Empty,
}

/// A received snapshot: all chunks are written, and none counts before the writer commits.
pub(crate) struct Staged {
    /// Makes it count.
    pub(crate) writer: Box<dyn SnapshotWriter>,
    /// Its tables.
    pub(crate) table: RouteInfo,
}

/// openraft's description of a snapshot.
pub(crate) fn raft_meta(meta: &SnapshotMeta) -> io::Result<RaftSnapshotMeta> {
    Ok(RaftSnapshotMeta {
        last_log_id: Some(raft_log_id(meta.last)),
        last_membership: membership_codec::decode_stored(&meta.membership)?,
    })
}

/// Writes a state as the newest snapshot. Gives its description, and its size; 0 if there is one already.
pub(crate) fn build(
    state: &AppliedState,
    snapshots: &Arc<dyn Snapshots>,
    unix_ms: u64,
) -> io::Result<(SnapshotMeta, u64)> {
    let last = state.table.revision().ok_or_else(|| io::Error::other("nothing to take a snapshot of"))?;
    if let Some(latest) = snapshots.latest()
        && latest.last >= last
    {
        return Ok((latest, 0));
    }
    let hash = state.table.state_hash();
    let meta = SnapshotMeta {
        last,
        membership: membership_codec::encode_stored(&state.membership)?,
        state_hash: hash.total,
        unix_ms,
    };
    let mut writer = snapshots.begin(meta.clone())?;
    let mut bytes = 0;
    for chunk in state.table.chunks_with(hash) {
        let chunk = chunk.map_err(io::Error::other)?;
        writer.chunk(&chunk)?;
        bytes += chunk.len() as u64;
    }
    writer.commit()?;
    Ok((meta, bytes))
}

/// Reads the tables of a complete snapshot, and checks them.
pub(crate) fn load(meta: &SnapshotMeta, snapshots: &Arc<dyn Snapshots>) -> io::Result<RouteInfo> {
    let stored = snapshots.open(meta.last)?;
    let mut reader = TableReader::default();
    let mut number = 0;
    while let Some(chunk) = stored.chunk(number)? {
        reader.chunk(&chunk)?;
        number += 1;
    }
    reader.finish(meta)
}

/// Whether openraft's description is of the snapshot with these tables.
pub(crate) fn describes(meta: &RaftSnapshotMeta, table: &RouteInfo) -> bool {
    meta.last_log_id.as_ref().map(log_id) == table.revision()
}

/// Builds tables from the chunks of a snapshot.
#[derive(Default)]
pub(crate) struct TableReader {
    loader: Loader,
}

impl TableReader {
    /// Takes the next chunk.
    pub(crate) fn chunk(&mut self, bytes: &Bytes) -> io::Result<()> {
        self.loader.chunk(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
    }

    /// The tables, after the last chunk. The loader has checked that they are whole and have the hash that the chunks
    /// state; this checks that they are those of the description.
    pub(crate) fn finish(self, meta: &SnapshotMeta) -> io::Result<RouteInfo> {
        let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
        let table = self.loader.finish().map_err(|e| invalid(e.to_string()))?;
        if table.revision() != Some(meta.last) {
            return Err(invalid(format!("snapshot {} holds revision {:?}", meta.last, table.revision())));
        }
        Ok(table)
    }
}
