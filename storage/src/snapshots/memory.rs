//! Snapshots in memory, with the rules of the store on disk.

use super::{
    KEPT_MAX, SnapshotMeta, SnapshotReader, SnapshotWriter, Snapshots, check_chunk_size, no_such_snapshot,
};
use crate::LogId;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Keeps snapshots as long as a clone of it lives: a clone is what a restart finds.
#[derive(Debug, Clone, Default)]
pub struct MemorySnapshots {
    kept: Arc<Mutex<Complete>>,
}

type Complete = BTreeMap<LogId, (SnapshotMeta, Vec<Bytes>)>;

impl MemorySnapshots {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn kept(&self) -> MutexGuard<'_, Complete> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Snapshots for MemorySnapshots {
    fn latest(&self) -> Option<SnapshotMeta> {
        self.kept().values().next_back().map(|(meta, _)| meta.clone())
    }

    fn all(&self) -> Vec<SnapshotMeta> {
        self.kept().values().map(|(meta, _)| meta.clone()).collect()
    }

    fn begin(&self, meta: SnapshotMeta) -> io::Result<Box<dyn SnapshotWriter>> {
        Ok(Box::new(MemoryWriter { store: self.clone(), meta, chunks: Vec::new() }))
    }

    fn open(&self, last: LogId) -> io::Result<Arc<dyn SnapshotReader>> {
        let kept = self.kept();
        let (_, chunks) = kept.get(&last).ok_or_else(|| no_such_snapshot(last))?;
        Ok(Arc::new(MemoryReader(chunks.clone())))
    }
}

struct MemoryReader(Vec<Bytes>);

impl SnapshotReader for MemoryReader {
    fn chunk(&self, number: u32) -> io::Result<Option<Bytes>> {
        Ok(usize::try_from(number).ok().and_then(|n| self.0.get(n)).cloned())
    }
}

struct MemoryWriter {
    store: MemorySnapshots,
    meta: SnapshotMeta,
    chunks: Vec<Bytes>,
}

impl SnapshotWriter for MemoryWriter {
    fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        check_chunk_size(bytes)?;
        self.chunks.push(Bytes::copy_from_slice(bytes));
        Ok(())
    }

    fn commit(self: Box<Self>) -> io::Result<()> {
        let mut kept = self.store.kept();
        kept.insert(self.meta.last, (self.meta, self.chunks));
        while kept.len() > KEPT_MAX {
            kept.pop_first();
        }
        Ok(())
    }
}
