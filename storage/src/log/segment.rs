//! A segment: one file of the log. It begins with 64 bytes that identify it:
//!
//! ```text
//!  0 magic [u8; 8]   8 format u32, zero u32   16 number u64   24 salt u64   32 directory id u128
//! 48 size u64       56 checksum of bytes 0..56 u64
//! ```
//!
//! A file is made in its full size, synced with its directory and noted in the marker before a record goes into
//! it, so another process has shortened a file that is shorter than `size`.

use super::Entry;
use super::record::{Header, Record, RecordError, u64_at};
use crate::LogId;
use crate::files::{File, Files, read_exact_at};
use crate::log_place::LogPlace;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Length of a segment's header, bytes; the first record follows.
pub(crate) const SEGMENT_HEADER_BYTES: u64 = 64;
/// Format of segments and their records.
pub(crate) const LOG_FORMAT: u32 = 1;

const MAGIC: [u8; 8] = *b"rnslog\r\n";
const SUFFIX: &str = ".log";

/// A segment that is open.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn File>,
    pub(crate) salt: u64,
    /// The length that it was made with, bytes.
    pub(crate) size: u64,
    /// Highest index of any entry that was ever written to it.
    pub(crate) index_max: Option<u64>,
}

/// Why a file is no segment of this log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SegmentError {
    #[error("its header is damaged")]
    Header,
    #[error("it has format {0}, and this version reads {LOG_FORMAT}")]
    Format(u32),
    #[error("it belongs to another data directory")]
    Foreign,
    #[error("it is segment {0} under another name")]
    Name(u64),
}

/// Name of a segment's file.
pub(crate) fn name(number: u64) -> String {
    format!("{number:020}{SUFFIX}")
}

/// Number of the segment with this file name.
pub(crate) fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let number = digits.parse().ok()?;
    (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit())).then_some(number)
}

/// What identifies a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) number: u64,
    pub(crate) salt: u64,
    pub(crate) directory_id: u128,
}

impl Segment {
    /// Makes the file, in its full size and synced, but not its directory.
    pub(crate) fn create(files: &dyn Files, dir: &Path, identity: Identity, size: u64) -> io::Result<Self> {
        let Identity { number, salt, directory_id } = identity;
        let path = dir.join(name(number));
        let file = files.create(&path)?;
        let mut header = Vec::with_capacity(64);
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&LOG_FORMAT.to_le_bytes());
        header.extend_from_slice(&[0; 4]);
        header.extend_from_slice(&number.to_le_bytes());
        header.extend_from_slice(&salt.to_le_bytes());
        header.extend_from_slice(&directory_id.to_le_bytes());
        header.extend_from_slice(&size.to_le_bytes());
        let checksum = xxh3_64(&header);
        header.extend_from_slice(&checksum.to_le_bytes());
        file.allocate(size)?;
        file.write_at(&header, 0)?;
        file.sync()?;
        Ok(Self { number, path, file, salt, size, index_max: None })
    }

    /// Reads the header of a file that is open.
    pub(crate) fn decode(
        path: PathBuf,
        file: Arc<dyn File>,
        number: u64,
        directory_id: u128,
        header: &[u8],
    ) -> Result<Self, SegmentError> {
        let header = header.get(..64).ok_or(SegmentError::Header)?;
        if header[..8] != MAGIC || xxh3_64(&header[..56]) != u64_at(header, 56) {
            return Err(SegmentError::Header);
        }
        let word = u64_at(header, 8);
        if word != u64::from(LOG_FORMAT) {
            return Err(SegmentError::Format(u32::try_from(word).unwrap_or(u32::MAX)));
        }
        let owner = u128::from(u64_at(header, 32)) | u128::from(u64_at(header, 40)) << 64;
        if owner != directory_id {
            return Err(SegmentError::Foreign);
        }
        if u64_at(header, 16) != number {
            return Err(SegmentError::Name(u64_at(header, 16)));
        }
        Ok(Self { number, path, file, salt: u64_at(header, 24), size: u64_at(header, 48), index_max: None })
    }

    /// Remembers that an entry went into this segment.
    pub(crate) fn note_entry(&mut self, index: u64) {
        self.index_max = self.index_max.max(Some(index));
    }
}

/// Where an entry lies.
#[derive(Debug, Clone)]
pub(crate) struct EntryPlace {
    pub(crate) id: LogId,
    pub(crate) place: LogPlace,
    pub(crate) length: usize,
    pub(crate) file: Arc<dyn File>,
    pub(crate) salt: u64,
}

impl EntryPlace {
    /// Reads the entry and checks that it is the one that was written there.
    pub(crate) fn read(&self, dir: &Path) -> io::Result<Entry> {
        let bytes = read_exact_at(&*self.file, self.place.offset, self.length)
            .map_err(|e| self.damage(dir, e.kind(), &e.to_string()))?;
        let invalid = |e: RecordError| self.damage(dir, io::ErrorKind::InvalidData, &e.to_string());
        match Record::decode(&bytes, self.salt, self.place.offset).map_err(invalid)?.record {
            Record::Entry(entry) if entry.id == self.id => Ok(entry),
            _ => Err(self.damage(dir, io::ErrorKind::InvalidData, "another record is there")),
        }
    }

    fn damage(&self, dir: &Path, kind: io::ErrorKind, reason: &str) -> io::Error {
        let LogPlace { segment, offset } = self.place;
        let file = dir.join(name(segment)).display().to_string();
        io::Error::new(
            kind,
            format!(
                "{file} at offset {offset}, entry {}: {reason}; see {}",
                self.id,
                crate::open_error::RUNBOOK_DAMAGED_LOG
            ),
        )
    }
}

/// The highest synced watermark of any record header in `bytes`, looked for at every place where one could begin.
pub(crate) fn highest_synced(bytes: &[u8], from: usize, salt: u64) -> Option<(usize, LogPlace)> {
    let mut highest: Option<(usize, LogPlace)> = None;
    for at in (from.next_multiple_of(super::record::ALIGN)..bytes.len()).step_by(super::record::ALIGN) {
        if let Ok(header) = Header::decode(&bytes[at..], salt, at as u64)
            && highest.is_none_or(|(_, place)| place < header.synced)
        {
            highest = Some((at, header.synced));
        }
    }
    highest
}
