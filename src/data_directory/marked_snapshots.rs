//! Notes the newest durable snapshot in the marker file, so that a directory that lost it refuses to start.

use std::io;
use std::sync::Arc;
use storage::LogId;
use storage::marker::MarkerFile;
use storage::snapshots::{SledSnapshots, SnapshotMeta, SnapshotReader, SnapshotWriter, Snapshots};

/// The snapshots in sled, with the newest noted in the marker.
pub(super) struct MarkedSnapshots {
    snapshots: SledSnapshots,
    marker: Arc<MarkerFile>,
}

impl MarkedSnapshots {
    pub(super) fn new(snapshots: SledSnapshots, marker: Arc<MarkerFile>) -> Self {
        Self { snapshots, marker }
    }
}

impl Snapshots for MarkedSnapshots {
    fn latest(&self) -> Option<SnapshotMeta> {
        self.snapshots.latest()
    }

    fn all(&self) -> Vec<SnapshotMeta> {
        self.snapshots.all()
    }

    fn begin(&self, meta: SnapshotMeta) -> io::Result<Box<dyn SnapshotWriter>> {
        let last = meta.last;
        let writer = self.snapshots.begin(meta)?;
        Ok(Box::new(MarkedWriter { writer, marker: Arc::clone(&self.marker), last }))
    }

    fn open(&self, last: LogId) -> io::Result<Arc<dyn SnapshotReader>> {
        self.snapshots.open(last)
    }
}

/// Writes one snapshot, and notes it once it is durable.
struct MarkedWriter {
    writer: Box<dyn SnapshotWriter>,
    marker: Arc<MarkerFile>,
    last: LogId,
}

impl SnapshotWriter for MarkedWriter {
    fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.chunk(bytes)
    }

    fn commit(self: Box<Self>) -> io::Result<()> {
        self.writer.commit()?;
        self.marker.set_snapshot(self.last)
    }
}
