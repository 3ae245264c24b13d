//! Commands as the bytes of a log entry.

use crate::local::blocking;
use bytes::Bytes;
use std::io;
use storage::limits::{ALONE_BYTES, ENTRY_BYTES_MAX};
use storage::{Command, format};

/// The bytes of an entry with these commands.
///
/// To ensure correctness: what is appended can be applied. The bytes are decoded again, by the limits of all later
/// readers, since an entry that does not decode would stop every node that applies it, and stop it again at each start.
///
/// # Errors
/// The entry is too large, or cannot be read back. Nothing of it may be appended.
pub(super) fn encode(commands: &[Command]) -> io::Result<Bytes> {
    let bytes = format::encode("log entry", &commands).map_err(io::Error::other)?;
    if bytes.len() > ENTRY_BYTES_MAX {
        let (count, bytes) = (commands.len(), bytes.len());
        let reason =
            format!("an entry of {count} commands has {bytes} bytes, at most {ENTRY_BYTES_MAX} are taken");
        return Err(io::Error::other(reason));
    }
    let read: Vec<Command> = format::decode("log entry", &bytes).map_err(io::Error::other)?;
    if read != commands {
        return Err(io::Error::other("the log entry reads back as other commands"));
    }
    Ok(bytes.into())
}

/// As [`encode`]; large commands are encoded beside the caller's thread. `encoded_bytes`: their size.
pub(super) async fn encode_beside(commands: Vec<Command>, encoded_bytes: usize) -> io::Result<Bytes> {
    if encoded_bytes <= ALONE_BYTES {
        return encode(&commands);
    }
    blocking(move || encode(&commands)).await
}

#[cfg(test)]
mod tests;
