//! Bytes ⇄ [`RemotingCommand`]: RocketMQ's framing, its two header serializations, and the PROXY header that may
//! precede the first frame. Pure functions over `bytes`; knows no request, no socket and no Raft.
//!
//! ```text
//! length (4) │ serialization (1) │ header length (3) │ header │ body
//! ```
//!
//! - [`Decoder`] decodes the bytes of a connection into commands; it checks the limits first.
//! - [`Repeat`] recognises a frame that repeats an earlier one.
//! - [`encode()`] appends a command to a buffer.
//! - Memory grows with the bytes that were received, never with a claimed length.

mod command;
mod decoder;
mod encode;
mod ext_fields;
mod header_binary;
mod header_json;
pub mod json;
mod proxy;
mod repeat;

pub mod codes;

pub use command::{FLAG_ONEWAY, FLAG_RESPONSE, Head, Language, RemotingCommand, Serialization};
pub use decoder::{Decoder, WireError};
pub use encode::{encode, encode_head};
pub use ext_fields::ExtFields;
pub use repeat::Repeat;

/// Largest frame, its length field included, bytes.
pub const FRAME_MAX_BYTES: usize = storage::limits::CLIENT_FRAME_BYTES_MAX;

/// Version number in our frames: that of RocketMQ 5.3.3, whose responses this nameserver gives.
pub const OUR_VERSION: i32 = 479;
