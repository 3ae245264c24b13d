//! One record of a segment: a header of 64 bytes, a payload, zeros up to a multiple of 8.
//!
//! ```text
//!  0 magic     u32     4 kind u8, variant u8, zero u16      8 payload length u64
//! 16 synced segment u64        24 synced offset u64         32 term u64   40 index u64
//! 48 checksum of the payload u64                            56 checksum of bytes 0..56 u64
//! ```
//!
//! All numbers are little endian. Both checksums are seeded with the segment's salt and the record's offset: a
//! record is valid only in the file and at the place that it was written for. *Synced*, the
//! synced watermark, says up to where the log was on stable storage when the record was written; by it recovery tells a
//! torn tail from damage.

use super::{Entry, Payload};
use crate::limits::LOG_PAYLOAD_BYTES_MAX;
use crate::log_place::LogPlace;
use crate::{LogId, Vote};
use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Length of a record's header, bytes.
pub(crate) const HEADER_BYTES: usize = 64;
/// Records begin at multiples of this.
pub(crate) const ALIGN: usize = 8;

const MAGIC: u32 = u32::from_le_bytes(*b"rnR1");
const CHECKPOINT_BYTES: usize = 72;

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record {
    /// An entry was appended.
    Entry(Entry),
    /// The vote was saved.
    Vote(Vote),
    /// Entries after this one were removed.
    Truncate(Option<LogId>),
    /// Entries up to this one were removed.
    Purge(LogId),
    /// The log is committed up to this entry.
    Committed(Option<LogId>),
    /// The state of the log at this place.
    Checkpoint(Checkpoint),
    /// Nothing but the synced watermark in its header.
    Synced,
    /// The log goes on in the next segment.
    End,
}

/// The state of the log at some place in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) vote: Option<Vote>,
    pub(crate) purged: Option<LogId>,
    pub(crate) committed: Option<LogId>,
    pub(crate) last: Option<LogId>,
}

/// A record's header that has a valid checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    kind: u8,
    variant: u8,
    payload_length: u64,
    /// Up to where the log was synced when this was written.
    pub(crate) synced: LogPlace,
    term: u64,
    index: u64,
    payload_checksum: u64,
}

/// A record as read from a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) record: Record,
    pub(crate) synced: LogPlace,
    /// Bytes from this record to the next.
    pub(crate) length: usize,
}

/// Why bytes are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("no record begins here")]
    Magic,
    #[error("the file ends within the record")]
    Short,
    #[error("the record's header does not match its checksum")]
    HeaderChecksum,
    #[error("the record's payload does not match its checksum")]
    PayloadChecksum,
    #[error("the record has an unknown kind or form")]
    Form,
}

/// Length of an entry's record, bytes.
pub(crate) fn entry_record_bytes(payload_bytes: usize) -> usize {
    HEADER_BYTES + payload_bytes.next_multiple_of(ALIGN)
}

/// Payload of an entry, and the number of its kind.
pub(crate) fn payload_parts(payload: &Payload) -> (u8, &[u8]) {
    match payload {
        Payload::Blank => (0, &[]),
        Payload::Commands(bytes) => (1, bytes),
        Payload::Membership(bytes) => (2, bytes),
    }
}

impl Record {
    /// Length when written, bytes.
    pub(crate) fn length(&self) -> usize {
        match self {
            Self::Entry(entry) => entry_record_bytes(payload_parts(&entry.payload).1.len()),
            Self::Checkpoint(_) => HEADER_BYTES + CHECKPOINT_BYTES,
            _ => HEADER_BYTES,
        }
    }

    /// Writes the record to the end of `out`. `salt` and `offset` are those of the segment and the place there.
    pub(crate) fn encode(&self, salt: u64, offset: u64, synced: LogPlace, out: &mut Vec<u8>) {
        let optional = |id: &Option<LogId>| (u8::from(id.is_some()), id.unwrap_or_default());
        let (kind, (variant, id)) = match self {
            Self::Entry(entry) => (1, (payload_parts(&entry.payload).0, entry.id)),
            Self::Vote(vote) => (2, (u8::from(vote.committed), LogId { term: vote.term, index: vote.node })),
            Self::Truncate(last) => (3, optional(last)),
            Self::Purge(upto) => (4, (1, *upto)),
            Self::Committed(id) => (5, optional(id)),
            Self::Checkpoint(_) => (6, (0, LogId::default())),
            Self::Synced => (7, (0, LogId::default())),
            Self::End => (8, (0, LogId::default())),
        };
        let checkpoint;
        let payload = match self {
            Self::Entry(entry) => payload_parts(&entry.payload).1,
            Self::Checkpoint(state) => {
                checkpoint = state.encode();
                &checkpoint[..]
            }
            _ => &[],
        };
        let seed = seed(salt, offset);
        let header = Header {
            kind,
            variant,
            payload_length: payload.len() as u64,
            synced,
            term: id.term,
            index: id.index,
            payload_checksum: xxh3_64_with_seed(payload, seed),
        };
        out.extend_from_slice(&header.encode(seed));
        out.extend_from_slice(payload);
        out.resize(out.len() + payload.len().next_multiple_of(ALIGN) - payload.len(), 0);
    }

    /// Reads the record that `bytes` begin with. Never allocates more than `bytes` hold.
    pub(crate) fn decode(bytes: &[u8], salt: u64, offset: u64) -> Result<Decoded, RecordError> {
        let header = Header::decode(bytes, salt, offset)?;
        let length = usize::try_from(header.payload_length).map_err(|_| RecordError::Form)?;
        if length > LOG_PAYLOAD_BYTES_MAX {
            return Err(RecordError::Form);
        }
        let end = HEADER_BYTES + length.next_multiple_of(ALIGN);
        let body = bytes.get(HEADER_BYTES..end).ok_or(RecordError::Short)?;
        let (payload, padding) = body.split_at(length);
        if xxh3_64_with_seed(payload, seed(salt, offset)) != header.payload_checksum {
            return Err(RecordError::PayloadChecksum);
        }
        if padding.iter().any(|&byte| byte != 0) {
            return Err(RecordError::PayloadChecksum);
        }
        let record = header.record(payload).ok_or(RecordError::Form)?;
        Ok(Decoded { record, synced: header.synced, length: end })
    }
}

impl Header {
    /// Reads a header alone; its payload may be anything.
    pub(crate) fn decode(bytes: &[u8], salt: u64, offset: u64) -> Result<Self, RecordError> {
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(RecordError::Short)?;
        let word = |at: usize| u64_at(bytes, at);
        if bytes[..4] != MAGIC.to_le_bytes() {
            return Err(RecordError::Magic);
        }
        if xxh3_64_with_seed(&bytes[..56], seed(salt, offset)) != word(56) {
            return Err(RecordError::HeaderChecksum);
        }
        Ok(Self {
            kind: bytes[4],
            variant: bytes[5],
            payload_length: word(8),
            synced: LogPlace { segment: word(16), offset: word(24) },
            term: word(32),
            index: word(40),
            payload_checksum: word(48),
        })
    }

    fn encode(&self, seed: u64) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4] = self.kind;
        bytes[5] = self.variant;
        let words = [
            self.payload_length,
            self.synced.segment,
            self.synced.offset,
            self.term,
            self.index,
            self.payload_checksum,
        ];
        for (at, word) in (8..).step_by(8).zip(words) {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let checksum = xxh3_64_with_seed(&bytes[..56], seed);
        bytes[56..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn record(&self, payload: &[u8]) -> Option<Record> {
        let id = LogId { term: self.term, index: self.index };
        let optional = match self.variant {
            0 => Some(None),
            1 => Some(Some(id)),
            _ => None,
        };
        if !matches!(self.kind, 1 | 6) && !payload.is_empty() {
            return None;
        }
        match (self.kind, self.variant) {
            (1, 0) if payload.is_empty() => Some(Record::Entry(Entry { id, payload: Payload::Blank })),
            (1, 1) => {
                Some(Record::Entry(Entry { id, payload: Payload::Commands(Bytes::copy_from_slice(payload)) }))
            }
            (1, 2) => Some(Record::Entry(Entry {
                id,
                payload: Payload::Membership(Bytes::copy_from_slice(payload)),
            })),
            (2, 0 | 1) => {
                Some(Record::Vote(Vote { term: self.term, node: self.index, committed: self.variant == 1 }))
            }
            (3, _) => optional.map(Record::Truncate),
            (4, 1) => Some(Record::Purge(id)),
            (5, _) => optional.map(Record::Committed),
            (6, 0) => Checkpoint::decode(payload).map(Record::Checkpoint),
            (7, 0) => Some(Record::Synced),
            (8, 0) => Some(Record::End),
            _ => None,
        }
    }
}

impl Checkpoint {
    /// What a truncation does to the ends. Nothing when the log ends there or before; never below what was purged.
    pub(crate) fn truncate_after(&mut self, last: Option<LogId>) {
        let index = |id: Option<LogId>| id.map(|id| id.index);
        if index(last) < index(self.last) {
            self.last = if index(last) > index(self.purged) { last } else { self.purged };
        }
    }

    /// What a purge does to the ends; it may go past the end of the log.
    pub(crate) fn purge(&mut self, upto: LogId) {
        if self.purged.is_none_or(|purged| purged.index < upto.index) {
            self.purged = Some(upto);
        }
        if self.last.is_none_or(|last| last.index < upto.index) {
            self.last = Some(upto);
        }
    }

    fn encode(&self) -> [u8; CHECKPOINT_BYTES] {
        let vote = self.vote.unwrap_or_default();
        let ids = [self.purged, self.committed, self.last];
        let mut bytes = [0; CHECKPOINT_BYTES];
        bytes[0] = u8::from(self.vote.is_some());
        bytes[1] = u8::from(vote.committed);
        bytes[8..16].copy_from_slice(&vote.term.to_le_bytes());
        bytes[16..24].copy_from_slice(&vote.node.to_le_bytes());
        for (number, id) in ids.into_iter().enumerate() {
            bytes[2 + number] = u8::from(id.is_some());
            let id = id.unwrap_or_default();
            let at = 24 + 16 * number;
            bytes[at..at + 8].copy_from_slice(&id.term.to_le_bytes());
            bytes[at + 8..at + 16].copy_from_slice(&id.index.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; CHECKPOINT_BYTES] = bytes.try_into().ok()?;
        if bytes[..5].iter().any(|&flag| flag > 1) {
            return None;
        }
        let vote = Vote { term: u64_at(bytes, 8), node: u64_at(bytes, 16), committed: bytes[1] == 1 };
        let id = |number: usize| {
            let at = 24 + 16 * number;
            (bytes[2 + number] == 1).then(|| LogId { term: u64_at(bytes, at), index: u64_at(bytes, at + 8) })
        };
        Some(Self { vote: (bytes[0] == 1).then_some(vote), purged: id(0), committed: id(1), last: id(2) })
    }
}

fn seed(salt: u64, offset: u64) -> u64 {
    salt.wrapping_add(offset)
}

/// The number at a place that the caller knows to be within `bytes`; 0 beyond.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests;
