//! The segments of an open log as files: made ahead, taken into use, unlinked when all their entries are purged.

use super::recovery::Scan;
use super::segment::{Identity, Segment, name};
use crate::files::Files;
use crate::log_place::LogPlace;
use crate::marker::MarkerFile;
use crate::runtime::Runtime;
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// What the log needs from outside.
#[derive(Clone)]
pub(crate) struct LogEnvironment {
    pub(crate) files: Arc<dyn Files>,
    /// The log's directory.
    pub(crate) dir: PathBuf,
    pub(crate) marker: Arc<MarkerFile>,
    pub(crate) runtime: Arc<dyn Runtime>,
    /// Nominal size of a segment.
    pub(crate) segment_bytes: u64,
}

/// The segments of an open log.
pub(crate) struct SegmentFiles {
    environment: LogEnvironment,
    directory_id: u128,
    /// Segments with records, oldest first; the log goes on in the last.
    used: VecDeque<Segment>,
    /// Segments made ahead.
    spares: VecDeque<Segment>,
    /// Making a segment ahead failed: not tried again before it is needed.
    spare_failed: bool,
    /// Segments that came into use since [`SegmentFiles::take_opened`].
    opened: Vec<Segment>,
}

impl SegmentFiles {
    /// The segments that recovery found.
    pub(crate) fn new(environment: LogEnvironment, scan: &Scan) -> Self {
        Self {
            directory_id: environment.marker.get().directory_id,
            environment,
            used: scan.segments.clone(),
            spares: scan.spares.clone(),
            spare_failed: false,
            opened: scan.segments.iter().cloned().collect(),
        }
    }

    /// The segment that the log goes on in; `None` before the first is made.
    pub(crate) fn current(&self) -> Option<&Segment> {
        self.used.back()
    }

    pub(crate) fn current_mut(&mut self) -> Option<&mut Segment> {
        self.used.back_mut()
    }

    /// The segments that came into use since the last such call.
    pub(crate) fn take_opened(&mut self) -> Vec<Segment> {
        std::mem::take(&mut self.opened)
    }

    /// Takes the next segment into use.
    pub(crate) fn start_next(&mut self, synced: LogPlace) -> io::Result<Option<&Segment>> {
        self.ensure_spare(synced)?;
        if let Some(segment) = self.spares.pop_front() {
            self.opened.push(segment.clone());
            self.used.push_back(segment);
        }
        self.spare_failed = false;
        Ok(self.used.back())
    }

    /// Makes a segment if none was made ahead.
    pub(crate) fn ensure_spare(&mut self, synced: LogPlace) -> io::Result<()> {
        if self.spares.is_empty() { self.make_spare(synced) } else { Ok(()) }
    }

    /// Makes a segment ahead, if there is none. A full disk is no error before the log needs the space.
    pub(crate) fn make_ahead(&mut self, synced: LogPlace) -> io::Result<()> {
        if self.spare_failed {
            return Ok(());
        }
        match self.ensure_spare(synced) {
            Err(e) if matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
                tracing::warn!("no log segment could be made ahead: {e}");
                self.spare_failed = true;
                Ok(())
            }
            made => made,
        }
    }

    /// Makes the next segment: the file in its full size, its directory, the marker, each synced before the next.
    fn make_spare(&mut self, synced: LogPlace) -> io::Result<()> {
        let LogEnvironment { files, dir, marker, runtime, segment_bytes } = &self.environment;
        let number = marker.get().last_segment + 1;
        let identity = Identity { number, salt: runtime.random_u64(), directory_id: self.directory_id };
        let path = dir.join(name(number));
        // A failed attempt may have left a file behind: no marker has named it.
        match files.remove(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let segment = match Segment::create(&**files, dir, identity, *segment_bytes) {
            Err(e) => {
                // The file takes space; if it cannot be removed now, the next attempt removes it.
                let _ = files.remove(&path);
                return Err(e);
            }
            segment => segment?,
        };
        files.sync_dir(dir)?;
        marker.update(|marker| {
            marker.last_segment = number;
            marker.synced = marker.synced.max(synced);
        })?;
        self.spares.push_back(segment);
        Ok(())
    }

    /// Unlinks the oldest segments as long as all their entries are purged, and gives their numbers. The purge and the
    /// checkpoint of the last segment are durable by now.
    pub(crate) fn drop_purged(&mut self, purged: Option<u64>, synced: LogPlace) -> io::Result<Vec<u64>> {
        let mut dropped = Vec::new();
        while self.used.len() > 1
            && let Some(segment) = self.used.front()
            && segment.index_max <= purged
        {
            self.environment.files.remove(&segment.path)?;
            dropped.push(segment.number);
            self.used.pop_front();
        }
        if let (false, Some(first)) = (dropped.is_empty(), self.used.front()) {
            self.environment.files.sync_dir(&self.environment.dir)?;
            let first = first.number;
            self.environment.marker.update(|marker| {
                marker.first_segment = first;
                marker.synced = marker.synced.max(synced);
            })?;
        }
        Ok(dropped)
    }

    /// Notes in the marker how far the log is synced.
    pub(crate) fn note_synced(&self, synced: LogPlace) -> io::Result<()> {
        self.environment.marker.update(|marker| marker.synced = synced)
    }
}
