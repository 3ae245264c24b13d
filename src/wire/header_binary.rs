//! RocketMQ's binary header.
//!
//! ```text
//! code (2) │ language (1) │ version (2) │ opaque (4) │ flag (4) │ remark length (4) │ remark │ fields length (4) │ fields
//! field: key length (2) │ key │ value length (4) │ value
//! ```
//! An empty text reads as null.

use super::{ExtFields, Head, Language, RemotingCommand, Serialization};
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Size of the fixed part before the length of the remark.
const FIXED_BYTES: usize = 13;

/// Decodes a header.
///
/// # Errors
/// The header is cut short, or a length points past its end.
pub(super) fn decode(header: &[u8]) -> Result<RemotingCommand, &'static str> {
    let mut rest = header;
    if rest.len() < FIXED_BYTES {
        return Err("cut short");
    }
    let code = i32::from(rest.get_i16());
    let language = Language(rest.get_u8());
    let version = i32::from(rest.get_i16());
    let opaque = rest.get_i32();
    let flag = rest.get_i32();
    let remark = take_long(&mut rest)?;
    let mut fields = take_long(&mut rest)?;
    let ext = if fields.is_empty() { None } else { Some(decode_fields(&mut fields)?) };
    Ok(RemotingCommand {
        code,
        language,
        version,
        opaque,
        flag,
        remark: (!remark.is_empty()).then(|| String::from_utf8_lossy(remark).into_owned()),
        ext,
        body: Bytes::new(),
        serialization: Serialization::RocketMq,
    })
}

fn decode_fields(fields: &mut &[u8]) -> Result<ExtFields, &'static str> {
    // The lengths of a field alone take six bytes, so the text is always shorter than the received bytes.
    let mut ext = ExtFields::with_capacity(fields.len(), 4);
    while !fields.is_empty() {
        let key_bytes = fields.try_get_u16().map_err(|_| "a field is cut short")?;
        let key = take(fields, usize::from(key_bytes))?;
        let value = take_long(fields)?;
        let value = (!value.is_empty()).then(|| String::from_utf8_lossy(value));
        ext.push(&String::from_utf8_lossy(key), value.as_deref());
    }
    Ok(ext)
}

/// Takes the bytes after a 4-byte length.
fn take_long<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], &'static str> {
    let length = rest.try_get_i32().map_err(|_| "cut short")?;
    take(rest, usize::try_from(length).map_err(|_| "a negative length")?)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], &'static str> {
    let (taken, left) = rest.split_at_checked(length).ok_or("a length points past the end")?;
    *rest = left;
    Ok(taken)
}

/// Appends a header. Fields with a null value are left out, and fields whose key is too long for its 16-bit length.
pub(super) fn encode(head: &Head<'_>, out: &mut BytesMut) {
    // The format has 16 bits here; codes and versions that do not fit wrap, as in Java.
    #[allow(clippy::cast_possible_truncation)]
    let short = |number: i32| number as i16;
    out.put_i16(short(head.code));
    out.put_u8(head.language.0);
    out.put_i16(short(head.version));
    out.put_i32(head.opaque);
    out.put_i32(head.flag);
    put_long(head.remark.unwrap_or_default(), out);
    let start = out.len();
    out.put_u32(0); // length of the fields, filled in below
    for (key, value) in head.ext.into_iter().flat_map(ExtFields::iter) {
        let (Some(value), Ok(key_bytes)) = (value, i16::try_from(key.len())) else { continue };
        out.put_i16(key_bytes);
        out.extend_from_slice(key.as_bytes());
        put_long(value, out);
    }
    let fields_bytes = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&fields_bytes.to_be_bytes());
    }
}

fn put_long(text: &str, out: &mut BytesMut) {
    out.put_u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
    out.extend_from_slice(text.as_bytes());
}
