//! A response before it has an opaque and a serialization.

use super::remarks;
use crate::wire::codes::result;
use crate::wire::{self, ExtFields, FLAG_RESPONSE, Head, Language, Serialization};
use bytes::{Bytes, BytesMut};
use std::borrow::Cow;

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

    /// Appends the response to request `opaque` to `out`, in the server's own serialization.
    pub fn encode(&self, opaque: i32, serialization: Serialization, out: &mut BytesMut) {
        wire::encode(&self.head(opaque), &self.body, serialization, out);
    }
}
