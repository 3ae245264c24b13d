//! The JSON header.

use super::json::{Event, Reader};
use super::{ExtFields, Head, Language, RemotingCommand, Serialization, json};
use bytes::{Bytes, BytesMut};
use std::borrow::Cow;

/// Decodes a header as leniently as Java does: fields in any order, unknown fields skipped, numbers in quotes, numbers
/// and booleans as field values, null for anything.
///
/// # Errors
/// The header is no JSON object, or a number does not parse.
pub(super) fn decode(header: &[u8]) -> Result<RemotingCommand, &'static str> {
    // The check is many times as fast as the replacement, and nearly every header passes it.
    let text = match std::str::from_utf8(header) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(header),
    };
    let mut reader = Reader::new(&text);
    let mut command = RemotingCommand {
        code: 0,
        language: Language::JAVA,
        version: 0,
        opaque: 0,
        flag: 0,
        remark: None,
        ext: None,
        body: Bytes::new(),
        serialization: Serialization::Json,
    };
    if reader.value()? != Event::Object {
        return Err("not an object");
    }
    while let Some(key) = reader.key()? {
        match &*key {
            "code" => command.code = reader.int()?.unwrap_or_default(),
            "flag" => command.flag = reader.int()?.unwrap_or_default(),
            "opaque" => command.opaque = reader.int()?.unwrap_or_default(),
            "version" => command.version = reader.int()?.unwrap_or_default(),
            "language" => {
                if let Some(name) = reader.text()? {
                    command.language = Language::parse(&name);
                }
            }
            "remark" => command.remark = reader.text()?.map(Cow::into_owned),
            "extFields" => command.ext = ext_fields(&mut reader, header.len())?,
            _ => reader.skip()?,
        }
    }
    reader.end()?;
    Ok(command)
}

fn ext_fields(reader: &mut Reader<'_>, header_bytes: usize) -> Result<Option<ExtFields>, &'static str> {
    match reader.value()? {
        Event::Object => {}
        Event::Null => return Ok(None),
        _ => return Err("extFields is no object"),
    }
    // A text is never longer than its escaped form, and a registration has nine fields: no second allocation.
    let mut ext = ExtFields::with_capacity(header_bytes, 12);
    while let Some(key) = reader.key()? {
        ext.push(&key, reader.text()?.as_deref());
    }
    Ok(Some(ext))
}

/// Appends a header, with the keys in the order of Java and without nulls.
pub(super) fn encode(head: &Head<'_>, out: &mut BytesMut) {
    out.extend_from_slice(b"{\"code\":");
    json::put_int(head.code.into(), out);
    if let Some(ext) = head.ext {
        out.extend_from_slice(b",\"extFields\":{");
        let mut first = true;
        for (key, value) in ext.iter() {
            let Some(value) = value else { continue };
            if !first {
                out.extend_from_slice(b",");
            }
            first = false;
            json::put_text(key, json::Charset::Utf8, out);
            out.extend_from_slice(b":");
            json::put_text(value, json::Charset::Utf8, out);
        }
        out.extend_from_slice(b"}");
    }
    out.extend_from_slice(b",\"flag\":");
    json::put_int(head.flag.into(), out);
    out.extend_from_slice(b",\"language\":\"");
    out.extend_from_slice(head.language.name().as_bytes());
    out.extend_from_slice(b"\",\"opaque\":");
    json::put_int(head.opaque.into(), out);
    if let Some(remark) = head.remark {
        out.extend_from_slice(b",\"remark\":");
        json::put_text(remark, json::Charset::Utf8, out);
    }
    out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
    json::put_int(head.version.into(), out);
    out.extend_from_slice(b"}");
}

#[cfg(test)]
mod tests;
