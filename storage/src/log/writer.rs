//! The writer: turns waiting requests into records, writes them, syncs once. Synchronous and without a thread or
//! queue of its own; [`super::FileLog`] drives it.

use super::Entry;
use super::record::{Checkpoint, Record};
use super::recovery::Scan;
use super::segment::{SEGMENT_HEADER_BYTES, Segment};
use super::segment_files::{LogEnvironment, SegmentFiles};
use crate::log_place::LogPlace;
use crate::{LogId, Vote};
use std::io;

/// Records are gathered up to about this size before they are written, bytes.
const WRITE_BYTES: usize = 4 << 20;
/// Room kept at the end of each segment for the record that ends it, bytes.
const END_BYTES: u64 = 64;
/// Room for more, bytes, when a segment is made larger for one large record.
const SLACK_BYTES: u64 = 4096;

/// One call of the log, for the writer.
#[derive(Debug)]
pub(crate) enum Operation {
    Append(Vec<Entry>),
    Vote(Vote),
    Truncate(Option<LogId>),
    Purge(LogId),
    /// Nothing: the log refused the call, and says so in its turn.
    Refused(io::Error),
    /// Finish, and note that everything is durable.
    Close,
}

/// An entry has been written, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    pub(crate) sequence: u64,
    pub(crate) index: u64,
    pub(crate) place: LogPlace,
}

/// The writer.
pub(crate) struct Writer {
    segments: SegmentFiles,
    /// Where the next record goes in the last segment, buffered ones included.
    end: u64,
    /// How far the last segment's file reaches, bytes.
    room: u64,
    /// The end of the last record that says that all before it is synced.
    watermark_noted: LogPlace,
    /// Records that are not written yet: they end at `end`.
    buffer: Vec<u8>,
    /// Everything before is on stable storage.
    synced: LogPlace,
    /// State of the log after the last record.
    state: Checkpoint,
}

impl Writer {
    /// Goes on where recovery ended, everything there being synced.
    pub(crate) fn new(environment: LogEnvironment, scan: &Scan) -> io::Result<Self> {
        let mut writer = Self {
            segments: SegmentFiles::new(environment, scan),
            end: scan.end,
            room: 0,
            watermark_noted: LogPlace::default(),
            buffer: Vec::new(),
            synced: LogPlace::default(),
            state: scan.log_index.ends,
        };
        match writer.segments.current() {
            None => writer.next_segment()?,
            Some(segment) => writer.room = segment.file.length()?,
        }
        writer.synced = writer.here();
        if scan.ends_synced {
            writer.watermark_noted = writer.here();
        } else {
            writer.note_synced()?;
        }
        Ok(writer)
    }

    /// The segments that came into use since the last such call, for readers.
    pub(crate) fn take_opened(&mut self) -> Vec<Segment> {
        self.segments.take_opened()
    }

    /// Writes a batch and syncs it. Gives where its entries lie.
    ///
    /// # Errors
    /// The disk fails; then nothing may be written any more.
    pub(crate) fn write(
        &mut self,
        batch: &[(u64, &Operation)],
        committed: Option<LogId>,
    ) -> io::Result<Vec<Written>> {
        let mut written = Vec::new();
        for (sequence, operation) in batch {
            match operation {
                Operation::Append(entries) => {
                    for entry in entries {
                        let place = self.put(&Record::Entry(entry.clone()))?;
                        written.push(Written { sequence: *sequence, index: entry.id.index, place });
                    }
                }
                Operation::Vote(vote) => {
                    self.put(&Record::Vote(*vote))?;
                }
                Operation::Truncate(last) => {
                    self.put(&Record::Truncate(*last))?;
                }
                Operation::Purge(upto) => {
                    self.put(&Record::Purge(*upto))?;
                    self.put(&Record::Checkpoint(self.state))?;
                }
                Operation::Refused(_) | Operation::Close => {}
            }
        }
        if committed != self.state.committed {
            self.put(&Record::Committed(committed))?;
        }
        self.flush()?;
        if self.synced != self.here() {
            self.sync()?;
        }
        Ok(written)
    }

    /// What is to be done after a batch was acknowledged: drops segments that are purged, makes the next one ahead.
    ///
    /// # Errors
    /// The disk fails; then nothing may be written any more.
    pub(crate) fn tidy(&mut self) -> io::Result<Vec<u64>> {
        let mut dropped = Vec::new();
        // Without the checkpoint of the last segment the ones before it must stay.
        if self.end > SEGMENT_HEADER_BYTES {
            let purged = self.state.purged.map(|id| id.index);
            dropped = self.segments.drop_purged(purged, self.synced)?;
        }
        if self.end > self.room / 2 {
            self.segments.make_ahead(self.synced)?;
        }
        Ok(dropped)
    }

    /// Notes, without a sync, that everything before is synced: recovery then knows what must be there.
    ///
    /// # Errors
    /// The disk fails; then nothing may be written any more.
    pub(crate) fn note_synced(&mut self) -> io::Result<()> {
        if self.end > SEGMENT_HEADER_BYTES && self.watermark_noted != self.here() {
            self.put(&Record::Synced)?;
            self.watermark_noted = self.here();
        }
        self.flush()
    }

    /// Notes in the marker that everything is synced.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.note_synced()?;
        self.sync()?;
        self.segments.note_synced(self.synced)
    }

    /// Where the next record goes.
    fn here(&self) -> LogPlace {
        let segment = self.segments.current().map_or(0, |segment| segment.number);
        LogPlace { segment, offset: self.end }
    }

    /// Adds a record; a new segment is begun when it does not fit.
    fn put(&mut self, record: &Record) -> io::Result<LogPlace> {
        if self.end == SEGMENT_HEADER_BYTES {
            self.encode(&Record::Checkpoint(self.state))?;
        }
        let length = record.length() as u64;
        let empty = self.end <= SEGMENT_HEADER_BYTES + Record::Checkpoint(self.state).length() as u64;
        if self.end + length + END_BYTES > self.room {
            if !empty {
                self.roll()?;
            }
            self.enlarge(length)?;
        }
        let place = self.here();
        self.encode(record)?;
        match record {
            Record::Entry(entry) => {
                self.state.last = Some(entry.id);
                if let Some(segment) = self.segments.current_mut() {
                    segment.note_entry(entry.id.index);
                }
            }
            Record::Vote(vote) => self.state.vote = Some(*vote),
            Record::Truncate(last) => self.state.truncate_after(*last),
            Record::Purge(upto) => self.state.purge(*upto),
            Record::Committed(committed) => self.state.committed = *committed,
            Record::Checkpoint(_) | Record::Synced | Record::End => {}
        }
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(place)
    }

    fn encode(&mut self, record: &Record) -> io::Result<()> {
        let segment = self.segments.current().ok_or_else(|| io::Error::other("the log has no segment"))?;
        let before = self.buffer.len();
        record.encode(segment.salt, self.end, self.synced, &mut self.buffer);
        self.end += (self.buffer.len() - before) as u64;
        Ok(())
    }

    /// Makes the segment large enough for a record that no segment of the nominal size holds.
    fn enlarge(&mut self, record_bytes: u64) -> io::Result<()> {
        let needed = self.end + record_bytes + END_BYTES;
        if let Some(segment) = self.segments.current().filter(|_| needed > self.room) {
            segment.file.allocate(needed + SLACK_BYTES)?;
            self.room = needed + SLACK_BYTES;
        }
        Ok(())
    }

    /// Ends the segment, synced, and goes on in the next.
    fn roll(&mut self) -> io::Result<()> {
        self.segments.ensure_spare(self.synced)?;
        self.encode(&Record::End)?;
        self.flush()?;
        self.sync()?;
        if let Some(segment) = self.segments.current()
            && self.room > self.end
        {
            segment.file.set_length(self.end)?;
        }
        self.next_segment()?;
        self.encode(&Record::Checkpoint(self.state))
    }

    /// Begins the next segment.
    fn next_segment(&mut self) -> io::Result<()> {
        if let Some(segment) = self.segments.start_next(self.synced)? {
            self.room = segment.file.length()?;
        }
        self.end = SEGMENT_HEADER_BYTES;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        if let Some(segment) = self.segments.current() {
            segment.file.write_at(&self.buffer, self.end - self.buffer.len() as u64)?;
        }
        self.buffer.clear();
        self.buffer.shrink_to(WRITE_BYTES);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if let Some(segment) = self.segments.current() {
            segment.file.sync()?;
        }
        self.synced = self.here();
        Ok(())
    }
}
