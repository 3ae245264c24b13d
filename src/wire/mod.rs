//! Bytes ⇄ [`RemotingCommand`]: RocketMQ's framing, its two header serializations, and what may stand before the
//! first frame. Pure functions over `bytes`; knows no request, no socket and no Raft.
//!
//! ```text
//! length (4) │ serialization (1) │ header length (3) │ header │ body
//! ```
//!
//! - [`Decoder`] cuts a connection's bytes into commands; limits are looked at before anything else.
//! - [`Repeat`] recognises a frame that came before.
//! - [`encode()`] writes a command behind what is already in a buffer.
//! - Memory grows with the bytes that were received, never with a length that was only claimed.

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
pub const FRAME_MAX_BYTES: usize = 16 << 20;

/// Version number that our frames carry: that of RocketMQ 5.3.3, whose answers we give.
pub const OUR_VERSION: i32 = 479;
