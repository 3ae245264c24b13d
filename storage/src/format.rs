//! How commands, outcomes and records become bytes. The only file that names bincode.
//!
//! Everything stored or sent starts with a format number, so that a later version can refuse or upgrade it.

use serde::Serialize;
use serde::de::DeserializeOwned;

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
    /// Broken.
    #[error("{what} does not decode: {reason}")]
    Broken {
        /// What was to be read.
        what: &'static str,
        /// Why.
        reason: String,
    },
}

/// No value is larger, bytes; entries are at most 16 MiB of client frame.
const VALUE_BYTES_MAX: usize = 64 << 20;

/// Values of up to so many encoded bytes take little memory: all that an unauthenticated peer or a small record can
/// send.
const FEW_BYTES: usize = 4 << 10;
/// The next step.
const MORE_BYTES: usize = 256 << 10;

fn config<const BYTES_MAX: usize>() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<BYTES_MAX>()
}

/// Encodes a value behind its format number.
///
/// # Errors
/// When the value is larger than 64 MiB.
pub fn encode<T: Serialize>(what: &'static str, value: &T) -> Result<Vec<u8>, FormatError> {
    let mut bytes = vec![FORMAT];
    bincode::serde::encode_into_std_write(value, &mut bytes, config::<VALUE_BYTES_MAX>())
        .map_err(|e| FormatError::Broken { what, reason: e.to_string() })?;
    Ok(bytes)
}

/// Decodes what [`encode`] wrote. Trailing bytes are an error.
///
/// # Errors
/// Another format number, or broken bytes.
pub fn decode<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, FormatError> {
    let (&format, rest) = bytes.split_first().ok_or(FormatError::Empty { what })?;
    if format != FORMAT {
        return Err(FormatError::Version { what, found: format });
    }
    // bincode makes room for a text before it looks whether the text is there, so the limit of a length follows
    // the number of bytes that came. It counts a number by its size in memory, which is at most 16 times what it takes here.
    let decoded = if rest.len() <= FEW_BYTES {
        bincode::serde::decode_from_slice(rest, config::<{ 16 * FEW_BYTES }>())
    } else if rest.len() <= MORE_BYTES {
        bincode::serde::decode_from_slice(rest, config::<{ 16 * MORE_BYTES }>())
    } else {
        bincode::serde::decode_from_slice(rest, config::<VALUE_BYTES_MAX>())
    };
    let (value, read) = decoded.map_err(|e| FormatError::Broken { what, reason: e.to_string() })?;
    if read != rest.len() {
        let reason = format!("{} bytes too many", rest.len() - read);
        return Err(FormatError::Broken { what, reason });
    }
    Ok(value)
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
    fn the_most_that_so_many_bytes_can_hold_is_read() {
        for count in
            [0, 1, FEW_BYTES - 1, FEW_BYTES, FEW_BYTES + 1, MORE_BYTES - 10, MORE_BYTES, MORE_BYTES + 1]
        {
            // In memory each takes 16 bytes, encoded one.
            let numbers = vec![0_u128; count];
            let bytes = encode("numbers", &numbers).unwrap();
            assert_eq!(decode::<Vec<u128>>("numbers", &bytes).unwrap(), numbers, "{count} numbers");
            let text = "a".repeat(count);
            assert_eq!(decode::<String>("text", &encode("text", &text).unwrap()).unwrap(), text);
        }
    }
}
