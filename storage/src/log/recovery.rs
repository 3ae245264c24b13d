//! Reading the log back: what survived, and whether all of what must have survived is there.
//!
//! [`scan`] only reads. A record that is not as written is one of two things. If the synced watermark of a later record
//! or of the marker lies beyond it, or a later segment was begun, it is damage: the node refuses the log and touches
//! nothing. Otherwise no write there was ever acknowledged: a torn tail, which [`super::repair`] copies aside and
//! truncates.

use super::log_index::LogIndex;
use super::record::{Decoded, Record, RecordError};
use super::segment::{self, SEGMENT_HEADER_BYTES, Segment, SegmentError, highest_synced};
use crate::files::{File, Files, read_exact_at};
use crate::log_place::LogPlace;
use crate::marker::Marker;
use crate::open_error::OpenError;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the log's files hold.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) log_index: LogIndex,
    /// Segments with records, oldest first; the log goes on in the last. Empty for a new log.
    pub(crate) segments: VecDeque<Segment>,
    /// Segments made ahead.
    pub(crate) spares: VecDeque<Segment>,
    /// Files that were being made when the process ended; nothing is in them.
    pub(crate) unfinished: Vec<PathBuf>,
    /// Where the next record goes in the last segment.
    pub(crate) end: u64,
    /// What lies there, if it is not zeros.
    pub(crate) torn: Option<(RecordError, Vec<u8>)>,
    /// The log is known to have been synced up to here.
    pub(crate) synced_watermark: LogPlace,
    /// Whether the last record says that all before it is synced.
    pub(crate) ends_synced: bool,
}

/// How the records of one segment end.
enum Tail {
    /// With a record that says that the log goes on in the next segment.
    End,
    /// With zeros, or with something that is no record.
    Open(Option<RecordError>),
}

struct Scanner<'a> {
    files: &'a dyn Files,
    dir: &'a Path,
    marker: &'a Marker,
    cache_bytes: usize,
    log_index: Option<LogIndex>,
    synced_watermark: LogPlace,
    ends_synced: bool,
    /// Where the segment before ended, once one was read.
    previous_end: Option<LogPlace>,
}

/// Reads the log of a directory and changes nothing.
pub(crate) fn scan(
    files: &dyn Files,
    dir: &Path,
    marker: &Marker,
    cache_bytes: usize,
) -> Result<Scan, OpenError> {
    let mut scanner = Scanner {
        files,
        dir,
        marker,
        cache_bytes,
        log_index: None,
        synced_watermark: LogPlace::default(),
        ends_synced: false,
        previous_end: None,
    };
    let (numbers, unfinished) = scanner.numbers()?;
    let mut scan = Scan {
        log_index: LogIndex::new(cache_bytes),
        segments: VecDeque::new(),
        spares: VecDeque::new(),
        unfinished,
        end: SEGMENT_HEADER_BYTES,
        torn: None,
        synced_watermark: LogPlace::default(),
        ends_synced: false,
    };
    let mut open = None;
    for number in numbers {
        let (mut segment, bytes) = scanner.read(number)?;
        if let Some(tail) = &open {
            Scanner::check_empty(&segment, &bytes, &scan, tail)?;
            scan.spares.push_back(segment);
            continue;
        }
        let (tail, end) = scanner.replay(&mut segment, &bytes)?;
        scan.end = end;
        if let Tail::Open(error) = tail {
            scan.torn = scanner.tail(&segment, &bytes, end, error)?;
            open = Some(segment.clone());
        }
        scan.segments.push_back(segment);
    }
    if let (None, Some(last)) = (open, scan.segments.back()) {
        let reason = format!("the log goes on in segment {}, which is missing", last.number + 1);
        return Err(OpenError::Damaged { file: last.path.clone(), offset: scan.end, reason });
    }
    scanner.finish(scan)
}

impl Scanner<'_> {
    /// Numbers of the segments to read, and the paths of those that were not finished.
    fn numbers(&self) -> Result<(Vec<u64>, Vec<PathBuf>), OpenError> {
        let Marker { first_segment: first, last_segment: last, .. } = *self.marker;
        let names = match self.files.list(self.dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            names => names.map_err(OpenError::io("list", self.dir))?,
        };
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment::number(name)).collect();
        let mut unfinished = Vec::new();
        while let Some(&number) = numbers.last()
            && number > last
        {
            let path = self.dir.join(segment::name(number));
            let (_, bytes) = self.load(&path)?;
            let content = bytes.get(SEGMENT_HEADER_BYTES as usize..).unwrap_or_default();
            if number > last + 1 || content.iter().any(|&byte| byte != 0) {
                let reason =
                    format!("log segment {number} is newer than its marker, which knows {last} as the last");
                return Err(self.refused(reason));
            }
            unfinished.push(path);
            numbers.pop();
        }
        if last == 0 {
            return Ok((numbers, unfinished));
        }
        if let Some(&number) = numbers.first().filter(|&&number| number < first) {
            let reason =
                format!("log segment {number} is older than its marker, which knows {first} as the first");
            return Err(self.refused(reason));
        }
        let from = numbers.first().copied().unwrap_or(last);
        if let Some(missing) = (from..=last).find(|number| !numbers.contains(number)) {
            return Err(
                self.refused(format!("log segment {missing} is missing ({first} to {last} were there)"))
            );
        }
        Ok((numbers, unfinished))
    }

    fn refused(&self, reason: String) -> OpenError {
        let path = self.dir.parent().unwrap_or(self.dir).to_path_buf();
        let advice = format!(
            "files were removed or copied back: put the whole directory back as it was when the node last ran, or \
             give the node a new id and an empty directory (see {})",
            crate::open_error::RUNBOOK_DIRECTORY
        );
        OpenError::Refused { path, reason, advice }
    }

    /// Opens a file and reads all of it.
    fn load(&self, path: &Path) -> Result<(Arc<dyn File>, Vec<u8>), OpenError> {
        let file = self.files.open(path).map_err(OpenError::io("open", path))?;
        let length = file.length().map_err(OpenError::io("read", path))?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let bytes = read_exact_at(&*file, 0, length).map_err(OpenError::io("read", path))?;
        Ok((file, bytes))
    }

    /// Opens a segment that must be there.
    fn read(&self, number: u64) -> Result<(Segment, Vec<u8>), OpenError> {
        let path = self.dir.join(segment::name(number));
        let (file, bytes) = self.load(&path)?;
        match Segment::decode(path.clone(), file, number, self.marker.directory_id, &bytes) {
            Ok(segment) => Ok((segment, bytes)),
            Err(e @ SegmentError::Header) => {
                Err(OpenError::Damaged { file: path, offset: 0, reason: e.to_string() })
            }
            Err(e) => Err(self.refused(format!("log segment {number} does not belong here: {e}"))),
        }
    }

    /// Takes in the records of a segment. Gives how they end, and where.
    fn replay(&mut self, segment: &mut Segment, bytes: &[u8]) -> Result<(Tail, u64), OpenError> {
        let mut at = SEGMENT_HEADER_BYTES as usize;
        loop {
            let offset = at as u64;
            let rest = bytes.get(at..).unwrap_or_default();
            let decoded = match Record::decode(rest, segment.salt, offset) {
                Ok(decoded) => decoded,
                Err(_) if rest.iter().all(|&byte| byte == 0) => return Ok((Tail::Open(None), offset)),
                Err(e) => return Ok((Tail::Open(Some(e)), offset)),
            };
            let length = decoded.length;
            let ended = decoded.record == Record::End;
            self.take(segment, offset, decoded).map_err(|reason| OpenError::Damaged {
                file: segment.path.clone(),
                offset,
                reason,
            })?;
            at += length;
            if ended {
                self.previous_end = Some(LogPlace { segment: segment.number, offset: at as u64 });
                return Self::check_end(segment, bytes, at).map(|()| (Tail::End, at as u64));
            }
        }
    }

    fn check_end(segment: &Segment, bytes: &[u8], at: usize) -> Result<(), OpenError> {
        match bytes[at..].iter().position(|&byte| byte != 0) {
            None => Ok(()),
            Some(more) => {
                let reason = "bytes follow the record that ends the segment".into();
                Err(OpenError::Damaged { file: segment.path.clone(), offset: (at + more) as u64, reason })
            }
        }
    }

    /// Takes in one record; the error says what contradicts it.
    fn take(&mut self, segment: &mut Segment, offset: u64, decoded: Decoded) -> Result<(), String> {
        let here = LogPlace { segment: segment.number, offset };
        let Decoded { record, synced, .. } = decoded;
        if synced > here || synced < self.synced_watermark {
            return Err(format!("the record claims that the log was synced up to {synced}"));
        }
        self.synced_watermark = synced;
        self.ends_synced = matches!(record, Record::Synced) && synced == here;
        let first_record = offset == SEGMENT_HEADER_BYTES;
        if first_record && synced != here && self.previous_end.is_some_and(|end| end != synced) {
            return Err(format!("the segment does not follow the one before: it claims {synced}"));
        }
        let cache_bytes = self.cache_bytes;
        let log_index = match (&mut self.log_index, &record) {
            (Some(log_index), Record::Checkpoint(state)) if log_index.ends == *state => log_index,
            (Some(log_index), _) if !first_record && !matches!(record, Record::Checkpoint(_)) => log_index,
            (none @ None, Record::Checkpoint(state)) if first_record => {
                none.insert(LogIndex::from_checkpoint(*state, cache_bytes))
            }
            _ => return Err("the checkpoint here does not agree with the records before it".into()),
        };
        match record {
            Record::Entry(entry) => {
                log_index.check_append(std::slice::from_ref(&entry)).map_err(|e| e.to_string())?;
                segment.note_entry(entry.id.index);
                log_index.append(entry, 0, Some(here));
            }
            Record::Vote(vote) => log_index.ends.vote = Some(vote),
            Record::Truncate(last) => log_index.truncate_after(last).map_err(|e| e.to_string())?,
            Record::Purge(upto) => log_index.purge(upto).map_err(|e| e.to_string())?,
            Record::Committed(committed) => log_index.ends.committed = committed,
            Record::Checkpoint(_) | Record::Synced | Record::End => {}
        }
        Ok(())
    }

    /// The tail of the last segment that has records: gives the torn bytes, if it is torn.
    fn tail(
        &self,
        segment: &Segment,
        bytes: &[u8],
        end: u64,
        error: Option<RecordError>,
    ) -> Result<Option<(RecordError, Vec<u8>)>, OpenError> {
        let damaged = |reason| OpenError::Damaged { file: segment.path.clone(), offset: end, reason };
        let here = LogPlace { segment: segment.number, offset: end };
        let what = error.map_or_else(|| "the records end here".to_owned(), |e| e.to_string());
        let at = usize::try_from(end).unwrap_or(usize::MAX);
        if let Some((later, watermark)) =
            highest_synced(bytes, at, segment.salt).filter(|(_, watermark)| *watermark > here)
        {
            return Err(damaged(format!(
                "{what}, but the record at {later} says that it was synced up to {watermark}"
            )));
        }
        if self.marker.synced > here {
            let watermark = self.marker.synced;
            return Err(damaged(format!(
                "{what}, but the marker says that the log was synced up to {watermark}"
            )));
        }
        if (bytes.len() as u64) < segment.size {
            return Err(damaged(format!("the file has {} bytes of {}", bytes.len(), segment.size)));
        }
        if self.log_index.is_none() && segment.number > 1 {
            return Err(damaged(format!("{what}, and no segment before it is left")));
        }
        let torn = bytes.get(at..).unwrap_or_default();
        let length = torn.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        Ok(error.map(|e| (e, torn[..length].to_vec())))
    }

    /// A segment after the one where the log goes on was made ahead: nothing is in it.
    fn check_empty(segment: &Segment, bytes: &[u8], scan: &Scan, tail: &Segment) -> Result<(), OpenError> {
        let content = bytes.get(SEGMENT_HEADER_BYTES as usize..).unwrap_or_default();
        let length = bytes.len() as u64;
        if length < segment.size {
            let reason = format!("the file has {length} bytes of {}", segment.size);
            return Err(OpenError::Damaged { file: segment.path.clone(), offset: length, reason });
        }
        if content.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        let reason = format!("the records end here, but segment {} was begun after this one", segment.number);
        Err(OpenError::Damaged { file: tail.path.clone(), offset: scan.end, reason })
    }

    fn finish(self, mut scan: Scan) -> Result<Scan, OpenError> {
        scan.synced_watermark = self.synced_watermark.max(self.marker.synced);
        scan.ends_synced = self.ends_synced && scan.torn.is_none();
        if let Some(log_index) = self.log_index {
            scan.log_index = log_index;
        }
        if let (Some(hole), Some(first)) = (scan.log_index.hole(), scan.segments.front()) {
            let reason =
                format!("entries {} to {} are in no segment", hole.start, hole.end.saturating_sub(1));
            return Err(OpenError::Damaged {
                file: first.path.clone(),
                offset: SEGMENT_HEADER_BYTES,
                reason,
            });
        }
        Ok(scan)
    }
}
