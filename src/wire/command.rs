//! A request or a response, as it stands in a frame.

use super::ExtFields;
use bytes::Bytes;
use std::fmt;

/// How a header is serialized.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Serialization {
    /// JSON text: the default of Java.
    #[default]
    Json,
    /// RocketMQ's binary header.
    RocketMq,
}

impl Serialization {
    /// Its byte in a frame.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Json => 0,
            Self::RocketMq => 1,
        }
    }

    /// The serialization with this byte in a frame.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Json),
            1 => Some(Self::RocketMq),
            _ => None,
        }
    }
}

impl fmt::Display for Serialization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "JSON",
            Self::RocketMq => "ROCKETMQ",
        })
    }
}

/// Language of a peer, by RocketMQ's number. Unknown numbers are accepted: the language is only displayed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Language(pub u8);

/// Names by number.
const LANGUAGES: [&str; 14] = [
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS",
    "RUST", "NODE_JS",
];

impl Language {
    /// Java: the language in our responses.
    pub const JAVA: Self = Self(0);
    /// Any language without a number.
    pub const OTHER: Self = Self(7);
    /// Rust: the language in the requests of our own clients.
    pub const RUST: Self = Self(12);

    /// Its name; `OTHER` for numbers without one.
    #[must_use]
    pub fn name(self) -> &'static str {
        LANGUAGES.get(usize::from(self.0)).copied().unwrap_or("OTHER")
    }

    /// By name in any case, or by number; [`Language::OTHER`] when unknown.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let by_name = LANGUAGES
            .iter()
            .position(|known| known.eq_ignore_ascii_case(text))
            .and_then(|n| u8::try_from(n).ok());
        by_name.or_else(|| text.parse().ok()).map_or(Self::OTHER, Self)
    }
}

/// Bit of [`RemotingCommand::flag`]: a response.
pub const FLAG_RESPONSE: i32 = 1;
/// Bit of [`RemotingCommand::flag`]: the sender expects no response.
pub const FLAG_ONEWAY: i32 = 1 << 1;

/// A request or a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemotingCommand {
    /// Request code, or the result code of a response.
    pub code: i32,
    /// Language of the sender.
    pub language: Language,
    /// Version number of the sender; 0 when it gave none.
    pub version: i32,
    /// Number that ties a response to its request.
    pub opaque: i32,
    /// Bit 0: response. Bit 1: oneway.
    pub flag: i32,
    /// Text beside the code.
    pub remark: Option<String>,
    /// The fields of the request or response; `None` when the header has no such object.
    pub ext: Option<ExtFields>,
    /// The bytes after the header; empty without a body.
    pub body: Bytes,
    /// Serialization of its header.
    pub serialization: Serialization,
}

impl RemotingCommand {
    /// A request of our own (commands, notices, load).
    #[must_use]
    pub fn request(code: i32, opaque: i32) -> Self {
        Self {
            code,
            language: Language::JAVA,
            version: super::OUR_VERSION,
            opaque,
            flag: 0,
            remark: None,
            ext: None,
            body: Bytes::new(),
            serialization: Serialization::Json,
        }
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.ext.get_or_insert_default().push(key, Some(value));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Makes it oneway.
    #[must_use]
    pub fn oneway(mut self) -> Self {
        self.flag |= FLAG_ONEWAY;
        self
    }

    /// Whether it is a response. A server ignores these.
    #[must_use]
    pub fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    /// Whether the sender expects no response: then it gets none, not even for a failure.
    #[must_use]
    pub fn is_oneway(&self) -> bool {
        self.flag & FLAG_ONEWAY != 0
    }

    /// A field; `None` when it is missing or null.
    #[must_use]
    pub fn field(&self, key: &str) -> Option<&str> {
        self.ext.as_ref()?.get(key)
    }

    /// Everything but the body, to be encoded.
    #[must_use]
    pub fn head(&self) -> Head<'_> {
        Head {
            code: self.code,
            language: self.language,
            version: self.version,
            opaque: self.opaque,
            flag: self.flag,
            remark: self.remark.as_deref(),
            ext: self.ext.as_ref(),
        }
    }
}

/// The content of a header, borrowed: what [`super::encode()`] writes.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// Request code, or the result code of a response.
    pub code: i32,
    /// Language of the sender.
    pub language: Language,
    /// Version number of the sender.
    pub version: i32,
    /// Number that ties a response to its request.
    pub opaque: i32,
    /// Bit 0: response. Bit 1: oneway.
    pub flag: i32,
    /// Text beside the code.
    pub remark: Option<&'a str>,
    /// The fields of the request or response.
    pub ext: Option<&'a ExtFields>,
}
