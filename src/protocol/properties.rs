//! Java's properties text: codes 318 and 319, and configuration files.

use storage::command::Name;

/// A text that is no properties text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a broken unicode escape")]
pub struct BadProperties;

/// Reads a text: keys and values sorted by key, of several with one key the last.
///
/// # Errors
/// A broken unicode escape.
pub fn parse(_text: &[u8]) -> Result<Vec<(Name, Name)>, BadProperties> {
    Ok(Vec::new())
}

/// Writes `key=value` lines in the given order, as code 319 gives them.
pub fn write<'a>(_entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> bytes::Bytes {
    bytes::Bytes::new()
}
