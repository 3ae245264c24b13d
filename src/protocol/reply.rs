//! A response before it has an opaque and a serialization.

use super::remarks;
use crate::wire::codes::result;
use crate::wire::{self, ExtFields, FLAG_RESPONSE, Head, Language, Serialization};
use bytes::{Bytes, BytesMut};
use std::borrow::Cow;
use storage::limits::CLIENT_FRAME_BYTES_MAX;

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

    /// Appends the response to request `opaque` to `out`, in the server's own serialization. A frame that is larger than
    /// clients take would close their connection: they get an error instead.
    pub fn encode(&self, opaque: i32, serialization: Serialization, out: &mut BytesMut) {
        let start = out.len();
        wire::encode(&self.head(opaque), &self.body, serialization, out);
        let bytes = out.len() - start;
        if bytes > CLIENT_FRAME_BYTES_MAX {
            out.truncate(start);
            let instead = Self::error(remarks::reply_too_large(bytes, CLIENT_FRAME_BYTES_MAX));
            wire::encode(&instead.head(opaque), &instead.body, serialization, out);
        }
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
    fn a_reply_that_fits_no_frame_becomes_an_error() {
        let (head, _) = sent(&Reply::success());
        let largest = CLIENT_FRAME_BYTES_MAX - head;
        let (bytes, answer) = sent(&Reply::with_body(vec![b'x'; largest].into()));
        assert_eq!((bytes, answer.code, answer.body.len()), (CLIENT_FRAME_BYTES_MAX, 0, largest));
        for too_large in [
            Reply::with_body(vec![b'x'; largest + 1].into()),
            Reply::success().with("value", &"x".repeat(CLIENT_FRAME_BYTES_MAX)),
        ] {
            let (_, answer) = sent(&too_large);
            let remark = answer.remark.unwrap();
            assert_eq!((answer.code, answer.opaque, answer.body.len()), (result::SYSTEM_ERROR, 7, 0));
            assert!(remark.ends_with("bytes, at most 16777216 fit a frame"), "{remark}");
        }
    }
}
