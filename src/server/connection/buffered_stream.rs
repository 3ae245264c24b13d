//! The stream of a connection with its two buffers.

use super::inbound::Inbound;
use super::outbound::Outbound;
use crate::budget::Budgets;
use crate::server::counters::Counters;
use crate::server::socket::ClientStream;
use crate::wire::Decoder;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

/// Reads into one buffer and writes from the other. An idle connection has neither.
pub(super) struct BufferedStream<S> {
    pub(super) socket: S,
    /// Received bytes that are not decoded yet.
    pub(super) inbound: Inbound,
    /// Responses that the socket has not taken yet.
    pub(super) outbound: Outbound,
    /// When a byte last moved in either direction.
    pub(super) last_moved: Instant,
    counters: Arc<Counters>,
}

impl<S: ClientStream> BufferedStream<S> {
    pub(super) fn new(socket: S, counters: Arc<Counters>, budgets: &Arc<Budgets>) -> Self {
        Self {
            socket,
            inbound: Inbound::new(Arc::clone(budgets)),
            outbound: Outbound::new(Arc::clone(budgets)),
            last_moved: Instant::now(),
            counters,
        }
    }

    /// Reads what has arrived; 0 bytes: the peer has closed. The buffer is allocated only when something has arrived, and
    /// nothing is read while the budget has no room for more of a large frame.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, decoder: &Decoder) -> Poll<io::Result<usize>> {
        if self.inbound.buffer.capacity() == 0 {
            std::task::ready!(self.socket.poll_read_ready(cx))?;
        }
        std::task::ready!(self.inbound.poll_room(cx, |received| decoder.front_bytes(received)));
        let read = std::task::ready!(pin!(self.socket.read_buf(&mut self.inbound.buffer)).poll(cx));
        if let Ok(bytes @ 1..) = read {
            self.last_moved = Instant::now();
            self.counters.received_bytes.add(bytes as u64);
        }
        Poll::Ready(read)
    }

    /// Writes once the socket takes something; pending while the outbound buffer is empty.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.outbound.len() == 0 {
            return Poll::Pending;
        }
        let written = std::task::ready!(Pin::new(&mut self.socket).poll_write(cx, self.outbound.front()));
        Poll::Ready(written.map(|bytes| self.written(bytes)))
    }

    /// Writes as much as the socket takes now.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while self.outbound.len() > 0 {
            match self.socket.try_write(self.outbound.front()) {
                Ok(bytes) => self.written(bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.outbound.shrink();
        Ok(())
    }

    /// Frees the buffers that are empty.
    pub(super) fn free_buffers(&mut self) {
        self.inbound.free_if_empty();
        self.outbound.free_if_empty();
    }

    fn written(&mut self, bytes: usize) {
        self.outbound.advance(bytes);
        self.last_moved = Instant::now();
        self.counters.sent_bytes.add(bytes as u64);
    }
}
