//! Decodes the bytes of a connection into commands.

use super::{RemotingCommand, Serialization, header_binary, header_json, proxy};
use bytes::{Buf, BytesMut};
use std::net::SocketAddr;

/// Bytes that a new connection must have sent before the decoder looks at them: the first 12 identify a PROXY header.
const DETECT_BYTES: usize = 12;
/// First byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;
/// Size of the length field.
const LENGTH_BYTES: usize = 4;
/// Size of serialization and header length: the smallest length of a frame.
const MARK_BYTES: usize = 4;

/// Why the bytes of a connection are no commands. The connection cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A TLS handshake.
    #[error("the connection starts with a TLS handshake, and TLS is not offered here")]
    Tls,
    /// A PROXY protocol header that does not parse.
    #[error("broken PROXY protocol header: {0}")]
    Proxy(&'static str),
    /// A length field over the limit, or under the smallest length of a frame.
    #[error("frame of {claimed} bytes: a frame has from {MARK_BYTES} to {max} bytes after its length")]
    FrameLength {
        /// Value of the length field.
        claimed: u32,
        /// Largest allowed value.
        max: usize,
    },
    /// The header would be longer than its frame.
    #[error("header of {claimed} bytes in a frame that has room for {room}")]
    HeaderLength {
        /// Value of the header length.
        claimed: usize,
        /// Room in the frame.
        room: usize,
    },
    /// Neither JSON nor ROCKETMQ.
    #[error("unknown header serialization {0}")]
    Serialization(u8),
    /// The header does not parse.
    #[error("broken {serialization} header: {reason}")]
    Header {
        /// Its serialization.
        serialization: Serialization,
        /// What is wrong.
        reason: &'static str,
    },
}

/// Decodes the bytes of one connection. One decoder per connection, since the first bytes may be a PROXY header.
#[derive(Debug)]
pub struct Decoder {
    frame_max_bytes: usize,
    stage: Stage,
    proxied: Option<SocketAddr>,
}

/// How far the connection has been decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// At the first byte of the connection.
    Detect,
    /// After the PROXY header, if any; before the first byte of the first frame.
    FirstByte,
    /// In the frames.
    Frames,
}

impl Decoder {
    /// A decoder for a new connection of a server. Largest frame with its length field: `frame_max_bytes`.
    #[must_use]
    pub fn new(frame_max_bytes: usize) -> Self {
        Self { frame_max_bytes, stage: Stage::Detect, proxied: None }
    }

    /// A decoder for the responses that a client reads: no PROXY header, no detection.
    #[must_use]
    pub fn for_client() -> Self {
        Self { stage: Stage::Frames, ..Self::new(super::FRAME_MAX_BYTES) }
    }

    /// Address of the peer according to the PROXY header, if there was one.
    #[must_use]
    pub fn proxied(&self) -> Option<SocketAddr> {
        self.proxied
    }

    /// Bytes of the frame at the front, its length field included, if its length is there and allowed. The frame itself
    /// may be incomplete.
    #[must_use]
    pub fn front_bytes(&self, buf: &BytesMut) -> Option<usize> {
        if self.stage != Stage::Frames {
            return None;
        }
        Some(self.frame_length(buf).ok()?? + LENGTH_BYTES)
    }

    /// Takes the next command from the front of `buf`; `None` when more bytes are needed.
    ///
    /// # Errors
    /// Bytes that are no command. The connection must be closed; `buf` is not to be used any more.
    pub fn next(&mut self, buf: &mut BytesMut) -> Result<Option<RemotingCommand>, WireError> {
        if self.stage != Stage::Frames && !self.begin(buf)? {
            return Ok(None);
        }
        let Some(length) = self.frame_length(buf)? else { return Ok(None) };
        let Some((serialization, header_length)) = mark(buf, length)? else { return Ok(None) };
        let Some(rest) = buf.get(LENGTH_BYTES + MARK_BYTES..LENGTH_BYTES + length) else { return Ok(None) };
        let (header, body) = rest.split_at_checked(header_length).unwrap_or((rest, &[]));
        let body_length = body.len();
        let decoded = match serialization {
            Serialization::Json => header_json::decode(header),
            Serialization::RocketMq => header_binary::decode(header),
        };
        let mut command = decoded.map_err(|reason| WireError::Header { serialization, reason })?;
        buf.advance(LENGTH_BYTES + MARK_BYTES + header_length);
        if body_length > 0 {
            command.body = buf.split_to(body_length).freeze();
        }
        Ok(Some(command))
    }

    /// Decodes the beginning of a connection; `false` when more bytes are needed.
    fn begin(&mut self, buf: &mut BytesMut) -> Result<bool, WireError> {
        if self.stage == Stage::Detect {
            if buf.len() < DETECT_BYTES {
                return Ok(false);
            }
            match proxy::parse(buf).map_err(WireError::Proxy)? {
                proxy::Parsed::Incomplete => return Ok(false),
                proxy::Parsed::Absent => {}
                proxy::Parsed::Present { length, source } => {
                    buf.advance(length);
                    self.proxied = source;
                }
            }
            self.stage = Stage::FirstByte;
        }
        match buf.first() {
            None => return Ok(false),
            Some(&TLS_HANDSHAKE) => return Err(WireError::Tls),
            Some(_) => self.stage = Stage::Frames,
        }
        Ok(true)
    }

    /// Length of the frame at the front as soon as the length field is there, even if the frame is incomplete.
    fn frame_length(&self, buf: &BytesMut) -> Result<Option<usize>, WireError> {
        let Some(claimed) = buf.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)) else {
            return Ok(None);
        };
        let max = self.frame_max_bytes.saturating_sub(LENGTH_BYTES);
        match usize::try_from(claimed) {
            Ok(length) if (MARK_BYTES..=max).contains(&length) => Ok(Some(length)),
            _ => Err(WireError::FrameLength { claimed, max }),
        }
    }
}

/// Serialization and header length of the frame at the front as soon as they are there. They are checked before the
/// decoder waits for the rest of the frame.
fn mark(buf: &BytesMut, length: usize) -> Result<Option<(Serialization, usize)>, WireError> {
    let mark = buf.get(LENGTH_BYTES..).and_then(<[u8]>::first_chunk::<MARK_BYTES>);
    let Some(&[serialization, high, middle, low]) = mark else { return Ok(None) };
    let serialization =
        Serialization::from_byte(serialization).ok_or(WireError::Serialization(serialization))?;
    let (claimed, room) = (u32::from_be_bytes([0, high, middle, low]) as usize, length - MARK_BYTES);
    if claimed > room {
        Err(WireError::HeaderLength { claimed, room })
    } else {
        Ok(Some((serialization, claimed)))
    }
}

#[cfg(test)]
mod tests;
