//! An end of a connection, as tasks see it.

use super::Network;
use super::wire::{ACCEPTED, EndNumber, Found};
use crate::host::{Clock, Moment};
use bytes::Bytes;
use raft_namesrv::server::{ClientStream, DeadPeer};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

pub(crate) struct SimStream {
    network: Arc<Network>,
    wire: u64,
    end: EndNumber,
    clock: Clock,
    /// Ends when something arrives.
    arrival: Option<Pin<Box<Sleep>>>,
    /// Taken off the wire, not yet read.
    ready: Bytes,
}

impl SimStream {
    pub(super) fn new(network: Arc<Network>, wire: u64, end: EndNumber, clock: Clock) -> Self {
        Self { network, wire, end, clock, arrival: None, ready: Bytes::new() }
    }

    fn look(&self, now: Moment, room: usize, waker: &Waker) -> Found {
        self.network.lock().receive(self.wire, self.end, now, room, waker)
    }

    /// Bytes, none at the end.
    fn poll_bytes(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<io::Result<Bytes>> {
        loop {
            match self.look(self.clock.now(), room, cx.waker()) {
                Found::Bytes(bytes) => return Poll::Ready(Ok(bytes)),
                Found::Eof => return Poll::Ready(Ok(Bytes::new())),
                Found::Broken => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                Found::Nothing(None) => {
                    self.arrival = None;
                    return Poll::Pending;
                }
                Found::Nothing(Some(at)) => {
                    let arrival = self.arrival.insert(Box::pin(self.clock.sleep_until(at)));
                    std::task::ready!(arrival.as_mut().poll(cx));
                }
            }
        }
    }

    fn write(&mut self, bytes: &[u8], waker: &Waker) -> Poll<io::Result<usize>> {
        let now = self.clock.now();
        let mut inner = self.network.lock();
        let weather = (inner.weather.delay_max_ms, inner.weather.lost_permille);
        let Some((from, to)) = inner.wires.get(&self.wire).map(|wire| wire.way(self.end)) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let carried = inner.paths.carry(from, to);
        let Some(wire) = inner.wires.get_mut(&self.wire) else { return Poll::Pending };
        if wire.is_broken(self.end, now) {
            if self.end == ACCEPTED {
                inner.ends(self.wire, now);
            }
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if !wire.has_room(self.end, waker) {
            return Poll::Pending;
        }
        wire.send(self.end, now, Bytes::copy_from_slice(bytes), weather, carried);
        Poll::Ready(Ok(bytes.len()))
    }

    fn close(&self, now: Moment) {
        let mut inner = self.network.lock();
        let Some((from, to)) = inner.wires.get(&self.wire).map(|wire| wire.way(self.end)) else { return };
        let carried = inner.paths.carry(from, to);
        if let Some(wire) = inner.wires.get_mut(&self.wire) {
            wire.close(self.end, now, carried);
        }
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ready.is_empty() {
            self.ready = std::task::ready!(self.poll_bytes(cx, buffer.remaining()))?;
        }
        let taken = self.ready.len().min(buffer.remaining());
        buffer.put_slice(&self.ready.split_to(taken));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write(bytes, cx.waker())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.close(self.clock.now());
        Poll::Ready(Ok(()))
    }
}

impl ClientStream for SimStream {
    fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.ready.is_empty() {
            self.ready = std::task::ready!(self.poll_bytes(cx, usize::MAX))?;
        }
        Poll::Ready(Ok(()))
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.write(bytes, Waker::noop()) {
            Poll::Ready(written) => written,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn detect_dead_peer(&mut self, settings: &DeadPeer) -> io::Result<()> {
        if let Some(wire) = self.network.lock().wires.get_mut(&self.wire) {
            wire.set_patience(self.end, settings.user_timeout);
        }
        Ok(())
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        // The machine may be gone already: its clock cannot be asked.
        let now = self.network.lock().now + crate::host::STEP;
        self.close(now);
    }
}
