//! Recognises a frame that repeats an earlier one, without decoding it.

use super::{RemotingCommand, Serialization};
use std::ops::Range;

/// Length field, serialization and header length.
const BEFORE_HEADER_BYTES: usize = 8;
/// Largest frame that is remembered, bytes: each connection remembers one.
const FRAME_BYTES_MAX: usize = 1024;
/// Position of the opaque in a frame with a binary header.
const BINARY_OPAQUE: Range<usize> = BEFORE_HEADER_BYTES + 5..BEFORE_HEADER_BYTES + 9;
/// The key of the opaque in a JSON header.
const JSON_OPAQUE: &[u8] = b"\"opaque\":";
/// Most digits of an opaque that always fit its type.
const DIGITS_MAX: usize = 9;

/// A frame as it was received. Another frame repeats it when they differ in nothing but the digits of the opaque.
#[derive(Debug)]
pub struct Repeat {
    frame: Box<[u8]>,
    opaque: Range<usize>,
    serialization: Serialization,
}

impl Repeat {
    /// The frame at the front of `buf`, if it is complete and small enough to be remembered.
    #[must_use]
    pub fn front(buf: &[u8]) -> Option<&[u8]> {
        let length = u32::from_be_bytes(*buf.first_chunk()?);
        let end = usize::try_from(length).ok()?.checked_add(size_of::<u32>())?;
        buf.get(..end).filter(|frame| frame.len() <= FRAME_BYTES_MAX)
    }

    /// Remembers a frame and the command that it was decoded to. `None` when it is not certain which of its bytes are
    /// the opaque.
    #[must_use]
    pub fn of(frame: &[u8], command: &RemotingCommand) -> Option<Self> {
        let opaque = match command.serialization {
            Serialization::RocketMq => BINARY_OPAQUE,
            Serialization::Json => json_opaque(frame, command.opaque)?,
        };
        frame.get(opaque.clone())?;
        Some(Self { frame: frame.into(), opaque, serialization: command.serialization })
    }

    /// Whether the frame at the front of `buf` repeats this one.
    #[must_use]
    pub fn is_at_front(&self, buf: &[u8]) -> bool {
        let Some(other) = buf.get(..self.frame.len()) else { return false };
        let Range { start, end } = self.opaque;
        other.get(..start) == self.frame.get(..start)
            && other.get(end..) == self.frame.get(end..)
            && (self.serialization == Serialization::RocketMq
                || other.get(start..end).is_some_and(|digits| digits.iter().all(u8::is_ascii_digit)))
    }

    /// Length of the frame, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.frame.len()
    }
}

/// Position of the digits of the opaque in a JSON header: after the only key of that name anywhere in the header.
fn json_opaque(frame: &[u8], opaque: i32) -> Option<Range<usize>> {
    let mut keys = frame.windows(JSON_OPAQUE.len()).enumerate().filter(|(_, bytes)| *bytes == JSON_OPAQUE);
    let (Some((key, _)), None) = (keys.next(), keys.next()) else { return None };
    let blanks = |from: &[u8]| from.iter().take_while(|byte| **byte == b' ').count();
    let behind = key + JSON_OPAQUE.len();
    let start = behind + blanks(frame.get(behind..)?);
    let digits = opaque.to_string();
    let end = start + digits.len();
    let plain = digits.len() <= DIGITS_MAX && digits.bytes().all(|byte| byte.is_ascii_digit());
    let ends = matches!(frame.get(end)?, b',' | b'}' | b' ');
    (plain && ends && frame.get(start..end)? == digits.as_bytes()).then_some(start..end)
}

#[cfg(test)]
mod tests;
