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

fn config() -> impl bincode::config::Config {
    // The limit bounds what a broken length can claim; entries are at most 16 MiB of client frame.
    bincode::config::standard().with_limit::<{ 64 << 20 }>()
}

/// Encodes a value behind its format number.
///
/// # Errors
/// When the value is larger than 64 MiB.
pub fn encode<T: Serialize>(what: &'static str, value: &T) -> Result<Vec<u8>, FormatError> {
    let mut bytes = vec![FORMAT];
    bincode::serde::encode_into_std_write(value, &mut bytes, config())
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
    let (value, read) = bincode::serde::decode_from_slice(rest, config())
        .map_err(|e| FormatError::Broken { what, reason: e.to_string() })?;
    if read != rest.len() {
        let reason = format!("{} bytes too many", rest.len() - read);
        return Err(FormatError::Broken { what, reason });
    }
    Ok(value)
}
