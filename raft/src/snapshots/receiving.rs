//! A snapshot that comes from the leader in parts. All of it blocks: call it on a blocking thread.

use crate::consensus::membership_codec;
use crate::consensus::snapshot::{Staged, TableReader};
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use storage::snapshots::{SnapshotMeta, SnapshotWriter, Snapshots};

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
        membership_codec::decode_stored(&meta.membership)?;
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

    /// Checks the whole, after the last of `chunks` chunks.
    pub(crate) fn finish(self, chunks: u32) -> io::Result<(SnapshotMeta, Staged)> {
        if chunks != self.next {
            return Err(io::Error::other(format!("{} of {chunks} chunks came", self.next)));
        }
        let table = self.reader.finish(&self.meta)?;
        Ok((self.meta, Staged { writer: self.writer, table }))
    }
}
