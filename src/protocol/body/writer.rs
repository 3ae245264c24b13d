//! Writes JSON objects and lists of one style, commas included.

use crate::protocol::JsonStyle;
use crate::wire::json::{self, Charset};
use bytes::{Bytes, BytesMut};

/// A body that is being written. The writer puts a comma before every key and element but the first of its object or
/// list.
pub(super) struct Writer {
    out: BytesMut,
    style: JsonStyle,
    charset: Charset,
}

impl Writer {
    pub(super) fn new(style: JsonStyle, capacity_bytes: usize) -> Self {
        let charset = match style {
            JsonStyle::Standard => Charset::Ascii,
            JsonStyle::Old => Charset::Utf8,
        };
        Self { out: BytesMut::with_capacity(capacity_bytes), style, charset }
    }

    pub(super) fn finish(self) -> Bytes {
        self.out.freeze()
    }

    /// An object with the fields that `fields` writes.
    pub(super) fn object(&mut self, fields: impl FnOnce(&mut Self)) {
        self.out.extend_from_slice(b"{");
        fields(self);
        self.out.extend_from_slice(b"}");
    }

    /// A list; `element` writes each item.
    pub(super) fn list<I: IntoIterator>(&mut self, items: I, mut element: impl FnMut(&mut Self, I::Item)) {
        self.out.extend_from_slice(b"[");
        for item in items {
            self.separate();
            element(self, item);
        }
        self.out.extend_from_slice(b"]");
    }

    /// A fixed key, of plain letters.
    pub(super) fn key(&mut self, key: &str) -> &mut Self {
        self.separate();
        self.out.extend_from_slice(b"\"");
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self
    }

    /// A key from the tables.
    pub(super) fn text_key(&mut self, key: &str) -> &mut Self {
        self.separate();
        self.text(key);
        self.out.extend_from_slice(b":");
        self
    }

    /// A number as key: quoted or not, depending on the style.
    pub(super) fn int_key(&mut self, key: i64) -> &mut Self {
        self.separate();
        let quote: &[u8] = match self.style {
            JsonStyle::Standard => b"\"",
            JsonStyle::Old => b"",
        };
        self.out.extend_from_slice(quote);
        json::put_int(key, &mut self.out);
        self.out.extend_from_slice(quote);
        self.out.extend_from_slice(b":");
        self
    }

    pub(super) fn text(&mut self, text: &str) {
        json::put_text(text, self.charset, &mut self.out);
    }

    pub(super) fn int(&mut self, number: impl Into<i64>) {
        json::put_int(number.into(), &mut self.out);
    }

    pub(super) fn boolean(&mut self, value: bool) {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
    }

    /// Writes a comma, unless this is the first key or element of its object or list.
    fn separate(&mut self) {
        if !matches!(self.out.last(), Some(b'{' | b'[')) {
            self.out.extend_from_slice(b",");
        }
    }
}
