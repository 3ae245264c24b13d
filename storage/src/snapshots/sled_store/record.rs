//! The values of a snapshot's database: chunks, and the pointer that says what must be there.

use crate::format::{self, FORMAT};
use crate::snapshots::{CHUNK_BYTES_MAX, SnapshotMeta};
use serde::{Deserialize, Serialize};

/// Key of the pointer record. Chunk keys have four bytes.
pub(super) const POINTER_KEY: &[u8] = b"pointer";

/// What a complete snapshot consists of. Written when every chunk is on stable storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pointer {
    pub(super) meta: SnapshotMeta,
    /// Number of chunks.
    pub(super) chunks: u32,
    /// Bytes of all chunks.
    pub(super) bytes: u64,
    /// XXH3 (128 bits) over all chunks in order.
    pub(super) hash: u128,
}

/// Key of a chunk.
pub(super) fn chunk_key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// A chunk as it is stored: format number, checksum, bytes. The checksum covers the number too.
pub(super) fn encode_chunk(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(HEADER_BYTES + bytes.len());
    value.push(FORMAT);
    value.extend_from_slice(&checksum(number, bytes).to_le_bytes());
    value.extend_from_slice(bytes);
    value
}

/// The bytes of a stored chunk, or what is wrong with it.
pub(super) fn decode_chunk(number: u32, value: &[u8]) -> Result<&[u8], String> {
    let Some((&[found, a, b, c, d], bytes)) = value.split_first_chunk::<HEADER_BYTES>() else {
        return Err(format!("chunk {number} has only {} bytes", value.len()));
    };
    if found != FORMAT {
        return Err(format!("chunk {number} has format {found}, this version reads {FORMAT}"));
    }
    if bytes.len() > CHUNK_BYTES_MAX {
        return Err(format!("chunk {number} has {} bytes, more than {CHUNK_BYTES_MAX}", bytes.len()));
    }
    if checksum(number, bytes) != u32::from_le_bytes([a, b, c, d]) {
        return Err(format!("the checksum of chunk {number} does not match"));
    }
    Ok(bytes)
}

/// Format number and checksum.
const HEADER_BYTES: usize = 5;

fn checksum(number: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// A small record followed by its checksum.
pub(super) fn encode_checked<T: Serialize>(what: &'static str, value: &T) -> Result<Vec<u8>, String> {
    let mut bytes = format::encode(what, value).map_err(|e| e.to_string())?;
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    Ok(bytes)
}

/// What [`encode_checked`] wrote, or what is wrong with it.
pub(super) fn decode_checked<T: for<'a> Deserialize<'a>>(
    what: &'static str,
    bytes: &[u8],
) -> Result<T, String> {
    let Some((body, &sum)) = bytes.split_last_chunk::<4>() else {
        return Err(format!("the {what} has only {} bytes", bytes.len()));
    };
    // The format number comes first: a newer format may have another checksum.
    match body.first() {
        Some(&FORMAT) | None => {}
        Some(found) => return Err(format!("the {what} has format {found}, this version reads {FORMAT}")),
    }
    if crc32fast::hash(body) != u32::from_le_bytes(sum) {
        return Err(format!("the checksum of the {what} does not match"));
    }
    format::decode(what, body).map_err(|e| e.to_string())
}
