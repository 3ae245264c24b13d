//! A request or an answer, as it stands in a frame.

use super::ExtFields;
use bytes::Bytes;
use std::fmt;

/// How a header is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Serialization {
    /// JSON text: what Java speaks unless told otherwise.
    #[default]
    Json,
    /// RocketMQ's binary header.
    RocketMq,
}

impl Serialization {
    /// The byte that stands for it in a frame.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Json => 0,
            Self::RocketMq => 1,
        }
    }

    /// What a frame's byte stands for.
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

/// Language of a peer, by RocketMQ's number. Unknown ones are taken; nothing depends on it but what is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Language(pub u8);

/// Names by number.
const LANGUAGES: [&str; 14] = [
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS",
    "RUST", "NODE_JS",
];

impl Language {
    /// Java: the language of our answers.
    pub const JAVA: Self = Self(0);
    /// Any that has no number.
    pub const OTHER: Self = Self(7);
    /// Rust: the language of our own clients.
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

/// Bit of [`RemotingCommand::flag`]: an answer.
pub const FLAG_RESPONSE: i32 = 1;
/// Bit of [`RemotingCommand::flag`]: nobody waits for an answer.
pub const FLAG_ONEWAY: i32 = 1 << 1;

/// A request or an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemotingCommand {
    /// Request code, or an answer's result.
    pub code: i32,
    /// Language of the sender.
    pub language: Language,
    /// Version number of the sender; 0 when it gave none.
    pub version: i32,
    /// Number that ties an answer to its request.
    pub opaque: i32,
    /// Bit 0: answer. Bit 1: oneway.
    pub flag: i32,
    /// Text beside the code.
    pub remark: Option<String>,
    /// The request's or answer's own fields; `None` when the header has no such object.
    pub ext: Option<ExtFields>,
    /// What follows the header; empty when nothing does.
    pub body: Bytes,
    /// How its header came, or is to be written.
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

    /// Whether it is an answer. A server ignores these.
    #[must_use]
    pub fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    /// Whether nobody waits for an answer: then there is none, not even of a failure.
    #[must_use]
    pub fn is_oneway(&self) -> bool {
        self.flag & FLAG_ONEWAY != 0
    }

    /// A field; `None` when it is missing or null.
    #[must_use]
    pub fn field(&self, key: &str) -> Option<&str> {
        self.ext.as_ref()?.get(key)
    }

    /// All of it but the body, to be encoded.
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

/// What a header says, borrowed: what [`super::encode()`] writes.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// Request code, or an answer's result.
    pub code: i32,
    /// Language of the sender.
    pub language: Language,
    /// Version number of the sender.
    pub version: i32,
    /// Number that ties an answer to its request.
    pub opaque: i32,
    /// Bit 0: answer. Bit 1: oneway.
    pub flag: i32,
    /// Text beside the code.
    pub remark: Option<&'a str>,
    /// Its own fields.
    pub ext: Option<&'a ExtFields>,
}
