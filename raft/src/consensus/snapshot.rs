//! Making, reading and staging snapshots. All of it blocks: it runs on blocking threads.

use crate::consensus::applied_state::State;
use crate::consensus::membership_codec as membership;
use crate::consensus::table_chunks::{self, TableReader};
use crate::consensus::types::{RaftSnapshotMeta, log_id, raft_log_id};
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use storage::RouteInfo;
use storage::snapshots::{SnapshotMeta, SnapshotWriter, Snapshots};

/// A snapshot as openraft hands it around.
pub(crate) enum SnapshotData {
    /// Complete in a store; read from there.
    Stored(SnapshotMeta, Arc<dyn Snapshots>),
    /// Received from the leader, not yet counting in this node's store.
    Staged(Box<Staged>),
    /// Of a state in which nothing has happened; nowhere stored.
    Empty,
}

/// A received snapshot: all chunks written, nothing of it counts yet.
pub(crate) struct Staged {
    /// Makes it count.
    pub(crate) writer: Box<dyn SnapshotWriter>,
    /// Its tables.
    pub(crate) table: RouteInfo,
}

/// openraft's description of one of our snapshots.
pub(crate) fn raft_meta(meta: &SnapshotMeta) -> io::Result<RaftSnapshotMeta> {
    Ok(RaftSnapshotMeta {
        last_log_id: Some(raft_log_id(meta.last)),
        last_membership: membership::decode_stored(&meta.membership)?,
    })
}

/// Writes a state as the newest snapshot. Gives its description.
pub(crate) fn build(state: &State, snapshots: &Arc<dyn Snapshots>, unix_ms: u64) -> io::Result<SnapshotMeta> {
    let last = state.table.revision().ok_or_else(|| io::Error::other("nothing to take a snapshot of"))?;
    if let Some(latest) = snapshots.latest()
        && latest.last >= last
    {
        return Ok(latest);
    }
    let meta = SnapshotMeta {
        last,
        membership: membership::encode_stored(&state.membership)?,
        state_hash: table_chunks::state_hash(&state.table),
        unix_ms,
    };
    let mut writer = snapshots.begin(meta.clone())?;
    table_chunks::write(&state.table, |chunk| writer.chunk(chunk))?;
    writer.commit()?;
    Ok(meta)
}

/// Reads the tables of a complete snapshot, and checks them.
pub(crate) fn load(meta: &SnapshotMeta, snapshots: &Arc<dyn Snapshots>) -> io::Result<RouteInfo> {
    let mut reader = TableReader::default();
    let mut number = 0;
    while let Some(chunk) = snapshots.chunk(meta.last, number)? {
        reader.chunk(&chunk)?;
        number += 1;
    }
    finish(reader, meta)
}

/// A snapshot that is being received.
pub(crate) struct Receiving {
    meta: SnapshotMeta,
    writer: Box<dyn SnapshotWriter>,
    reader: TableReader,
    next: u32,
}

impl Receiving {
    /// Begins to receive.
    pub(crate) fn begin(meta: SnapshotMeta, snapshots: &Arc<dyn Snapshots>) -> io::Result<Self> {
        membership::decode_stored(&meta.membership)?;
        let writer = snapshots.begin(meta.clone())?;
        Ok(Self { meta, writer, reader: TableReader::default(), next: 0 })
    }

    /// Takes chunks, the first of which has the number `first`.
    pub(crate) fn chunks(&mut self, first: u32, chunks: &[Bytes]) -> io::Result<()> {
        if first != self.next {
            return Err(io::Error::other(format!("chunk {first} came when {} was due", self.next)));
        }
        for chunk in chunks {
            self.writer.chunk(chunk)?;
            self.reader.chunk(chunk)?;
            self.next += 1;
        }
        Ok(())
    }

    /// All chunks are there: checks the whole.
    pub(crate) fn finish(self, chunks: u32) -> io::Result<(SnapshotMeta, Staged)> {
        if chunks != self.next {
            return Err(io::Error::other(format!("{} of {chunks} chunks came", self.next)));
        }
        let table = finish(self.reader, &self.meta)?;
        Ok((self.meta, Staged { writer: self.writer, table }))
    }
}

fn finish(reader: TableReader, meta: &SnapshotMeta) -> io::Result<RouteInfo> {
    let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    let table = reader.finish()?;
    if table.revision() != Some(meta.last) {
        return Err(invalid(format!("snapshot {} holds revision {:?}", meta.last, table.revision())));
    }
    // The chunks carry their hash too, and are checked against it: no need to hash it all once more.
    Ok(table)
}

/// Checks that openraft talks of the same snapshot.
pub(crate) fn same(meta: &RaftSnapshotMeta, table: &RouteInfo) -> bool {
    meta.last_log_id.as_ref().map(log_id) == table.revision()
}
