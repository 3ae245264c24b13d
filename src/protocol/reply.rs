//! A response before it has an opaque and a serialization.

use super::remarks;
use crate::wire::codes::result;
use crate::wire::{self, ExtFields, FLAG_RESPONSE, Head, Language, Serialization};
use bytes::{Bytes, BytesMut};
use std::borrow::Cow;
use storage::limits::CLIENT_HEADER_BYTES_MAX;

/// What a handler returns, independent of the connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// Result code.
    pub code: i32,
    /// Text beside the code.
    pub remark: Option<Cow<'static, str>>,
    /// Fields; `None` writes no `extFields`, an empty list writes `{}`.
    pub ext: Option<ExtFields>,
    /// Body; empty when there is none. Shared, so that a cached body costs nothing.
    pub body: Bytes,
}

impl Reply {
    /// Success without fields and body.
    #[must_use]
    pub fn success() -> Self {
        Self::default()
    }

    /// Success with a body.
    #[must_use]
    pub fn with_body(body: Bytes) -> Self {
        Self { body, ..Self::default() }
    }

    /// Any result with a remark.
    #[must_use]
    pub fn refused(code: i32, remark: impl Into<Cow<'static, str>>) -> Self {
        Self { code, remark: Some(remark.into()), ..Self::default() }
    }

    /// SYSTEM_BUSY, with Java's remark.
    #[must_use]
    pub fn busy() -> Self {
        Self::refused(result::SYSTEM_BUSY, remarks::BUSY)
    }

    /// Result 1 (SYSTEM_ERROR) with a remark.
    #[must_use]
    pub fn error(remark: impl Into<Cow<'static, str>>) -> Self {
        Self::refused(result::SYSTEM_ERROR, remark)
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.ext.get_or_insert_default().push(key, Some(value));
        self
    }

    /// Writes `extFields` even if no field is added.
    #[must_use]
    pub fn with_ext(mut self) -> Self {
        self.ext.get_or_insert_default();
        self
    }

    /// The header of the response to request `opaque`.
    #[must_use]
    pub fn head(&self, opaque: i32) -> Head<'_> {
        Head {
            code: self.code,
            language: Language::JAVA,
            version: wire::OUR_VERSION,
            opaque,
            flag: FLAG_RESPONSE,
            remark: self.remark.as_deref(),
            ext: self.ext.as_ref(),
        }
    }

    /// Appends the response to request `opaque` to `out`, in the server's own serialization. A header whose length does
    /// not fit its three bytes would break the connection: the client gets an error instead.
    pub fn encode(&self, opaque: i32, serialization: Serialization, out: &mut BytesMut) {
        if self.encode_head(opaque, serialization, out) {
            out.extend_from_slice(&self.body);
        }
    }

    /// As [`Reply::encode`], but leaves the body to the caller. `false`: the client gets an error, which has none.
    pub fn encode_head(&self, opaque: i32, serialization: Serialization, out: &mut BytesMut) -> bool {
        let start = out.len();
        wire::encode_head(&self.head(opaque), self.body.len(), serialization, out);
        let header_bytes = out.len() - start;
        let fits = header_bytes <= CLIENT_HEADER_BYTES_MAX;
        if !fits {
            out.truncate(start);
            let instead = Self::error(remarks::too_many_bytes(
                "the fields of the reply",
                header_bytes,
                CLIENT_HEADER_BYTES_MAX,
            ));
            wire::encode(&instead.head(opaque), &instead.body, serialization, out);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Decoder;

    fn sent(reply: &Reply) -> (usize, wire::RemotingCommand) {
        let mut out = BytesMut::from(&b"before"[..]);
        reply.encode(7, Serialization::Json, &mut out);
        let mut frame = out.split_off(6);
        assert_eq!(out, b"before"[..]);
        let bytes = frame.len();
        (bytes, Decoder::for_client().next(&mut frame).unwrap().unwrap())
    }

    #[test]
    fn a_reply_whose_header_fits_no_frame_becomes_an_error() {
        let value = |bytes: usize| Reply::success().with("value", &"x".repeat(bytes));
        let (empty, _) = sent(&value(0));
        let largest = CLIENT_HEADER_BYTES_MAX - empty;
        let (bytes, answer) = sent(&value(largest));
        assert_eq!((bytes, answer.code), (CLIENT_HEADER_BYTES_MAX, 0));
        assert_eq!(answer.field("value").map(str::len), Some(largest));
        let (_, answer) = sent(&value(largest + 1));
        let remark = answer.remark.unwrap();
        assert_eq!((answer.code, answer.opaque), (result::SYSTEM_ERROR, 7));
        assert_eq!(remark, "the fields of the reply have 16777216 bytes, at most 16777215 are allowed");
    }
}
