//! Frames: a length, then that many bytes. Pure but for reading and writing.

use std::io;
use std::time::Duration;
use storage::limits::PEER_FRAME_BYTES_MAX;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Largest frame of the handshake: an unauthenticated peer gets no more memory than this.
pub(crate) const HANDSHAKE_BYTES_MAX: usize = 4 << 10;
/// Bytes written or read at a time; between two pieces a connection shows that it moves.
pub(crate) const PIECE_BYTES: usize = 64 << 10;
/// Kind and request number, in front of a frame's body.
pub(crate) const HEADER_BYTES: usize = 9;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A request.
    Request,
    /// The reply to the request of the same number.
    Reply,
    /// The reply takes its time; the peer still works on it.
    Working,
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// What it is.
    pub(crate) kind: Kind,
    /// Number of the request, chosen by its sender.
    pub(crate) number: u64,
    /// The encoded message.
    pub(crate) body: Vec<u8>,
}

impl Frame {
    /// Reads the bytes after the length.
    pub(crate) fn parse(bytes: &[u8]) -> io::Result<Self> {
        let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
        let Some((header, body)) = bytes.split_at_checked(HEADER_BYTES) else {
            return Err(invalid(format!("frame of {} bytes is too short", bytes.len())));
        };
        let (kind, number) = header.split_at(1);
        let kind = match kind {
            [0] => Kind::Request,
            [1] => Kind::Reply,
            [2] => Kind::Working,
            other => return Err(invalid(format!("frame of unknown kind {other:?}"))),
        };
        let number =
            number.try_into().map(u64::from_be_bytes).map_err(|_| invalid("no number".to_owned()))?;
        Ok(Self { kind, number, body: body.to_vec() })
    }

    /// Appends the frame, length first, to a buffer.
    pub(crate) fn write_to(&self, buffer: &mut Vec<u8>) -> io::Result<()> {
        let length = HEADER_BYTES + self.body.len();
        if length > PEER_FRAME_BYTES_MAX {
            return Err(io::Error::other(format!("frame of {length} bytes, at most {PEER_FRAME_BYTES_MAX}")));
        }
        let length = u32::try_from(length).map_err(io::Error::other)?;
        buffer.extend_from_slice(&length.to_be_bytes());
        buffer.push(match self.kind {
            Kind::Request => 0,
            Kind::Reply => 1,
            Kind::Working => 2,
        });
        buffer.extend_from_slice(&self.number.to_be_bytes());
        buffer.extend_from_slice(&self.body);
        Ok(())
    }
}

/// Reads a length and that many bytes. The buffer grows with the bytes that come, not with the length.
pub(crate) async fn read<R: AsyncRead + Unpin>(
    reader: &mut R,
    bytes_max: usize,
    mut moved: impl FnMut(),
) -> io::Result<Vec<u8>> {
    let length = usize::try_from(reader.read_u32().await?).map_err(io::Error::other)?;
    moved();
    if length > bytes_max {
        let reason = format!("frame claims {length} bytes, at most {bytes_max} are taken");
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    let mut bytes = Vec::with_capacity(length.min(PIECE_BYTES));
    while bytes.len() < length {
        let piece = (length - bytes.len()).min(PIECE_BYTES);
        bytes.reserve(piece);
        let read = (&mut *reader).take(piece as u64).read_buf(&mut bytes).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        moved();
    }
    Ok(bytes)
}

/// Writes bytes piece by piece; fails when a piece makes no progress for `stall`.
pub(crate) async fn write<W: AsyncWrite + Unpin>(
    writer: &mut W,
    bytes: &[u8],
    stall: Duration,
    mut moved: impl FnMut(),
) -> io::Result<()> {
    let mut left = bytes;
    while !left.is_empty() {
        let piece = left.get(..PIECE_BYTES).unwrap_or(left);
        let written = timeout(stall, writer.write(piece))
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the peer takes no more bytes"))??;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        left = left.get(written..).unwrap_or_default();
        moved();
    }
    timeout(stall, writer.flush())
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the peer takes no more bytes"))?
}

/// Writes a length and the bytes.
pub(crate) async fn write_sized<W: AsyncWrite + Unpin>(writer: &mut W, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut whole = length.to_be_bytes().to_vec();
    whole.extend_from_slice(bytes);
    writer.write_all(&whole).await?;
    writer.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_frame_comes_back(kind in 0u8..3, number: u64, body in proptest::collection::vec(any::<u8>(), 0..300)) {
            let kind = [Kind::Request, Kind::Reply, Kind::Working][usize::from(kind)];
            let frame = Frame { kind, number, body };
            let mut bytes = Vec::new();
            frame.write_to(&mut bytes).unwrap();
            let length = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
            prop_assert_eq!(length, bytes.len() - 4);
            prop_assert_eq!(Frame::parse(&bytes[4..]).unwrap(), frame);
        }
    }

    #[tokio::test]
    async fn a_length_without_its_bytes_takes_no_memory() {
        let mut claimed: &[u8] = &[0x01, 0xff, 0xff, 0xff, 1, 2, 3];
        let error = read(&mut claimed, PEER_FRAME_BYTES_MAX, || ()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let mut claimed: &[u8] = &[0xff, 0xff, 0xff, 0xff, 1, 2, 3];
        let error = read(&mut claimed, PEER_FRAME_BYTES_MAX, || ()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
