//! The stream of a connection with its two buffers.

use crate::server::counters::Counters;
use crate::server::socket::ClientStream;
use bytes::{Buf, BytesMut};
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

/// Room for a read into an empty buffer, bytes.
const READ_BYTES: usize = 8 << 10;
/// Most room that one read adds to the buffer, bytes: a buffer grows with the bytes that were received.
const READ_BYTES_MAX: usize = 1 << 20;
/// An empty outbound buffer with more room than this is freed, bytes.
const OUTBOUND_KEPT_BYTES: usize = 512 << 10;

/// Reads into one buffer and writes from the other. An idle connection has neither.
pub(super) struct BufferedStream<S> {
    pub(super) socket: S,
    /// Received bytes that are not decoded yet.
    pub(super) inbound: BytesMut,
    /// Responses that the socket has not taken yet.
    pub(super) outbound: BytesMut,
    /// When a byte last moved in either direction.
    pub(super) last_moved: Instant,
    counters: Arc<Counters>,
}

impl<S: ClientStream> BufferedStream<S> {
    pub(super) fn new(socket: S, counters: Arc<Counters>) -> Self {
        Self {
            socket,
            inbound: BytesMut::new(),
            outbound: BytesMut::new(),
            last_moved: Instant::now(),
            counters,
        }
    }

    /// Reads what has arrived; 0 bytes: the peer has closed. The buffer is allocated only when something has arrived.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.inbound.capacity() == 0 {
            std::task::ready!(self.socket.poll_read_ready(cx))?;
        }
        if self.inbound.capacity() - self.inbound.len() < READ_BYTES / 2 {
            self.inbound.reserve(self.inbound.len().clamp(READ_BYTES, READ_BYTES_MAX));
        }
        let read = std::task::ready!(pin!(self.socket.read_buf(&mut self.inbound)).poll(cx));
        if let Ok(bytes @ 1..) = read {
            self.last_moved = Instant::now();
            self.counters.received_bytes.add(bytes as u64);
        }
        Poll::Ready(read)
    }

    /// Writes once the socket takes something; pending while the outbound buffer is empty.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.outbound.is_empty() {
            return Poll::Pending;
        }
        let written = std::task::ready!(Pin::new(&mut self.socket).poll_write(cx, &self.outbound));
        Poll::Ready(written.map(|bytes| self.written(bytes)))
    }

    /// Writes as much as the socket takes now.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.outbound.is_empty() {
            match self.socket.try_write(&self.outbound) {
                Ok(bytes) => self.written(bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        free_if_empty(&mut self.outbound, OUTBOUND_KEPT_BYTES);
        Ok(())
    }

    /// Frees the buffers that are empty.
    pub(super) fn free_buffers(&mut self) {
        free_if_empty(&mut self.inbound, 0);
        free_if_empty(&mut self.outbound, 0);
    }

    fn written(&mut self, bytes: usize) {
        self.outbound.advance(bytes);
        self.last_moved = Instant::now();
        self.counters.sent_bytes.add(bytes as u64);
    }
}

/// Frees an empty buffer with room for more than `bytes_max`.
fn free_if_empty(buffer: &mut BytesMut, bytes_max: usize) {
    if buffer.is_empty() && buffer.capacity() > bytes_max {
        *buffer = BytesMut::new();
    }
}
