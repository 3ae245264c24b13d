//! Encodes commands.

use super::{Head, Serialization, header_binary, header_json};
use bytes::{BufMut, BytesMut};

/// Appends a whole frame to `out`.
pub fn encode(head: &Head<'_>, body: &[u8], serialization: Serialization, out: &mut BytesMut) {
    encode_head(head, body.len(), serialization, out);
    out.extend_from_slice(body);
}

/// Appends a frame without its body of `body_bytes`. The caller writes the body after it (a large one without a copy).
pub fn encode_head(head: &Head<'_>, body_bytes: usize, serialization: Serialization, out: &mut BytesMut) {
    let start = out.len();
    out.put_u64(0); // length and mark, filled in below
    match serialization {
        Serialization::Json => header_json::encode(head, out),
        Serialization::RocketMq => header_binary::encode(head, out),
    }
    let header_bytes = out.len() - start - 8;
    // Headers are far below 16 MiB and frames below 4 GiB: the size of a request bounds the size of its response.
    let length = u32::try_from(4 + header_bytes + body_bytes).unwrap_or(u32::MAX);
    let mark = u32::from(serialization.byte()) << 24
        | (u32::try_from(header_bytes).unwrap_or(u32::MAX) & 0x00FF_FFFF);
    if let Some(place) = out.get_mut(start..start + 8) {
        place.copy_from_slice(&(u64::from(length) << 32 | u64::from(mark)).to_be_bytes());
    }
}
