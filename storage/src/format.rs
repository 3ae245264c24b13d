//! How commands, outcomes and records become bytes. The only file that names bincode.
//!
//! Everything stored or sent starts with a format number, so that a later version can refuse or upgrade it.

use crate::limits::VALUE_BYTES_MAX;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Write};

/// Format of encoded values: the first byte of each.
pub const FORMAT: u8 = 1;

/// Bytes that are not what they should be.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// Nothing there.
    #[error("empty {what}")]
    Empty {
        /// What was to be read.
        what: &'static str,
    },
    /// Written by another version.
    #[error("{what} has format {found}, this version reads {FORMAT}")]
    Version {
        /// What was to be read.
        what: &'static str,
        /// Its format number.
        found: u8,
    },
    /// Too many bytes.
    #[error("{what} is too large: at most {bytes_max} bytes are encoded or decoded")]
    TooLarge {
        /// What was to be written or read.
        what: &'static str,
        /// The limit.
        bytes_max: usize,
    },
    /// Broken.
    #[error("{what} does not decode: {reason}")]
    Broken {
        /// What was to be read.
        what: &'static str,
        /// Why.
        reason: String,
    },
}

/// Encoded bytes → the limit of what they decode to. bincode makes room for a text before it looks whether the text is
/// there, so the limit of a length follows the number of bytes that came.
///
/// To ensure correctness: all that [`encode`] writes decodes. bincode counts a number by its size in memory, which is at
/// most [`GROWTH`] times what the number takes here.
const STEPS: [usize; 6] = [4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20, VALUE_BYTES_MAX];

/// A `u128` takes 16 bytes in memory and may take one here. No type grows by more.
const GROWTH: usize = 16;

/// Encodes a value behind its format number.
///
/// # Errors
/// When the value is larger than [`VALUE_BYTES_MAX`].
pub fn encode<T: Serialize>(what: &'static str, value: &T) -> Result<Vec<u8>, FormatError> {
    encode_within(what, value, VALUE_BYTES_MAX)
}

/// As [`encode`], with a smaller limit. Encoding ends at the limit: a value that is much larger takes no more memory.
///
/// # Errors
/// When the value is larger than `bytes_max`.
pub fn encode_within<T: Serialize>(
    what: &'static str,
    value: &T,
    bytes_max: usize,
) -> Result<Vec<u8>, FormatError> {
    let mut out = Within { bytes: vec![FORMAT], left: bytes_max, full: false };
    match bincode::serde::encode_into_std_write(value, &mut out, bincode::config::standard()) {
        Ok(_) => Ok(out.bytes),
        Err(_) if out.full => Err(FormatError::TooLarge { what, bytes_max }),
        Err(e) => Err(FormatError::Broken { what, reason: e.to_string() }),
    }
}

/// Bytes with a limit.
struct Within {
    bytes: Vec<u8>,
    left: usize,
    /// Whether the limit was met.
    full: bool,
}

impl Write for Within {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len()) else {
            self.full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        self.left = left;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Decodes what [`encode`] wrote. Trailing bytes are an error.
///
/// # Errors
/// Another format number, too many bytes, or broken ones.
pub fn decode<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, FormatError> {
    let (&format, rest) = bytes.split_first().ok_or(FormatError::Empty { what })?;
    if format != FORMAT {
        return Err(FormatError::Version { what, found: format });
    }
    check_size(what, rest.len())?;
    let step = STEPS.iter().position(|step| rest.len() <= *step);
    let decoded = match step {
        Some(0) => decode_within::<T, { GROWTH * STEPS[0] }>(rest),
        Some(1) => decode_within::<T, { GROWTH * STEPS[1] }>(rest),
        Some(2) => decode_within::<T, { GROWTH * STEPS[2] }>(rest),
        Some(3) => decode_within::<T, { GROWTH * STEPS[3] }>(rest),
        Some(4) => decode_within::<T, { GROWTH * STEPS[4] }>(rest),
        _ => decode_within::<T, { GROWTH * STEPS[5] }>(rest),
    };
    let (value, read) = decoded.map_err(|e| FormatError::Broken { what, reason: e.to_string() })?;
    if read != rest.len() {
        let reason = format!("{} bytes too many", rest.len() - read);
        return Err(FormatError::Broken { what, reason });
    }
    Ok(value)
}

fn decode_within<T: DeserializeOwned, const LIMIT: usize>(
    bytes: &[u8],
) -> Result<(T, usize), bincode::error::DecodeError> {
    bincode::serde::decode_from_slice(bytes, bincode::config::standard().with_limit::<LIMIT>())
}

fn check_size(what: &'static str, bytes: usize) -> Result<(), FormatError> {
    let bytes_max = VALUE_BYTES_MAX;
    if bytes > bytes_max { Err(FormatError::TooLarge { what, bytes_max }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text of which only the length is there.
    fn claimed(bytes: u32, after: usize) -> Vec<u8> {
        let mut encoded = vec![FORMAT, 252];
        encoded.extend_from_slice(&bytes.to_le_bytes());
        encoded.resize(encoded.len() + after, b'a');
        encoded
    }

    #[test]
    fn a_length_that_is_only_claimed_takes_no_memory() {
        for (bytes, after) in [(100_000, 0), (60 << 20, 4_000), (60 << 20, 5_000), (5 << 20, 200_000)] {
            let error = decode::<String>("text", &claimed(bytes, after)).unwrap_err().to_string();
            // Refused by its length; `UnexpectedEnd` means that room was made for it first.
            assert!(error.contains("LimitExceeded"), "{bytes} claimed, {after} there: {error}");
        }
    }

    #[test]
    fn what_was_written_is_read_though_it_takes_much_more_memory() {
        // As in a registration whose static topics have many queues: encoded 9 MiB, counted by bincode 72 MiB.
        let numbers = vec![0_i64; 9 << 20];
        let bytes = encode("numbers", &numbers).unwrap();
        assert!(decode::<Vec<i64>>("numbers", &bytes).unwrap() == numbers);
    }

    #[test]
    fn no_more_is_written_than_is_read() {
        let text = "a".repeat(VALUE_BYTES_MAX - 5);
        let bytes = encode("text", &text).unwrap();
        assert_eq!(bytes.len() - 1, VALUE_BYTES_MAX);
        assert!(decode::<String>("text", &bytes).unwrap() == text);
        for refused in [encode("text", &(text + "a")).unwrap_err(), {
            decode::<String>("text", &[&*bytes, b"a"].concat()).unwrap_err()
        }] {
            assert!(matches!(refused, FormatError::TooLarge { .. }), "{refused}");
        }
    }

    #[test]
    fn encoding_ends_at_its_limit() {
        let texts = vec!["a".repeat(100); 1_000];
        let bytes = encode("texts", &texts).unwrap();
        assert!(encode_within("texts", &texts, bytes.len() - 1).unwrap() == bytes);
        let refused = encode_within("texts", &texts, bytes.len() - 2).unwrap_err();
        assert!(matches!(refused, FormatError::TooLarge { bytes_max, .. } if bytes_max == bytes.len() - 2));
        let mut out = Within { bytes: Vec::new(), left: 50_000, full: false };
        bincode::serde::encode_into_std_write(&texts, &mut out, bincode::config::standard()).unwrap_err();
        assert!(out.full && out.bytes.capacity() < 101_000, "{} bytes", out.bytes.capacity());
    }

    #[test]
    fn the_most_that_so_many_bytes_can_hold_is_read() {
        let at_steps = STEPS[..4].iter().flat_map(|step| [step - 10, *step, step + 1]);
        for count in [0, 1].into_iter().chain(at_steps) {
            // In memory each takes 16 bytes, encoded one.
            let numbers = vec![0_u128; count];
            let bytes = encode("numbers", &numbers).unwrap();
            assert_eq!(decode::<Vec<u128>>("numbers", &bytes).unwrap(), numbers, "{count} numbers");
            let text = "a".repeat(count);
            assert_eq!(decode::<String>("text", &encode("text", &text).unwrap()).unwrap(), text);
        }
    }
}
