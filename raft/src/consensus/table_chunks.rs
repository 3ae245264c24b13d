//! The tables ⇄ the chunks of a snapshot.

use bytes::Bytes;
use std::io;
use storage::RouteInfo;
use storage::route_info::Loader;

/// Calls `write` with each chunk of the tables, in order.
pub(crate) fn write(table: &RouteInfo, mut write: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    for chunk in table.chunks() {
        write(&chunk.map_err(io::Error::other)?)?;
    }
    Ok(())
}

/// Hash of the tables' stored values.
pub(crate) fn state_hash(table: &RouteInfo) -> u128 {
    table.state_hash().total
}

/// Builds tables from chunks.
#[derive(Default)]
pub(crate) struct TableReader {
    loader: Loader,
}

impl TableReader {
    /// Takes the next chunk.
    pub(crate) fn chunk(&mut self, bytes: &Bytes) -> io::Result<()> {
        self.loader.chunk(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
    }

    /// The tables, after the last chunk; whole, possible, and with the hash that they had.
    pub(crate) fn finish(self) -> io::Result<RouteInfo> {
        self.loader.finish().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
    }
}
