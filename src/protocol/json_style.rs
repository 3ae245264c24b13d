//! The two JSON dialects that Java's name server writes.

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JsonStyle {
    /// Standard JSON, for clients since 4.9.4: integer keys quoted, text beyond ASCII escaped.
    Standard,
    /// The old style: integer keys unquoted, UTF-8.
    Old,
}
