//! One connection: one task that reads bytes, answers look-ups at once, hands other requests to a worker, and writes the
//! responses once per buffer.

mod end_reason;
mod requests;

use super::admission::ConnectionPermit;
use super::message::{Response, ToConnection};
use super::repeated_heartbeat::RepeatedHeartbeat;
use super::shared::Shared;
use super::socket::ClientStream;
use super::worker::Task;
use crate::liveness::SessionId;
use crate::service::Session;
use crate::wire::Decoder;
use bytes::{Buf, BytesMut};
use end_reason::EndReason;
use std::future::Future;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};

/// Room for a read into an empty buffer, bytes.
const READ_BYTES: usize = 8 << 10;
/// Most room that one read adds to the buffer, bytes: a buffer grows with the bytes that were received.
const READ_BYTES_MAX: usize = 1 << 20;
/// Size of the outbound buffer at which it is written at the latest, bytes; an empty buffer twice as large is freed.
const FLUSH_BYTES: usize = 256 << 10;
/// A connection that was idle for this long frees its buffers.
const FREE_BUFFERS_AFTER: Duration = Duration::from_secs(20);

/// An event of a connection.
enum Event {
    Message(ToConnection),
    Read(io::Result<usize>),
    Written(io::Result<usize>),
    Timer,
}

struct Connection<S> {
    shared: Arc<Shared>,
    stream: S,
    peer: SocketAddr,
    id: SessionId,
    /// Made with the first request, since a PROXY header before it may name another peer.
    session: Option<Arc<Session>>,
    permit: ConnectionPermit,
    decoder: Decoder,
    /// Received bytes that are not decoded yet.
    inbound: BytesMut,
    /// Responses that the socket has not taken yet.
    outbound: BytesMut,
    messages: mpsc::UnboundedReceiver<ToConnection>,
    to_self: mpsc::UnboundedSender<ToConnection>,
    worker: Option<(mpsc::UnboundedSender<Task>, JoinHandle<()>)>,
    /// Whether a request came that only brokers send.
    of_broker: bool,
    heartbeat: RepeatedHeartbeat,
    /// When a byte last moved in either direction.
    last_moved: Instant,
    timer: Pin<Box<Sleep>>,
}

/// Serves a connection to its end, and reports the end to liveness once all its registrations have their outcome. Other
/// tasks can close the connection from this call on, before the future is first polled.
pub(super) fn serve<S: ClientStream>(
    shared: Arc<Shared>,
    stream: S,
    peer: SocketAddr,
    id: SessionId,
    permit: ConnectionPermit,
) -> impl Future<Output = ()> + Send {
    let (to_self, messages) = mpsc::unbounded_channel();
    shared.registry.add(id, to_self.clone());
    async move {
        let mut connection = Connection {
            decoder: Decoder::new(shared.options.limits.frame_bytes),
            timer: Box::pin(tokio::time::sleep(FREE_BUFFERS_AFTER.min(shared.options.limits.idle))),
            last_moved: Instant::now(),
            inbound: BytesMut::new(),
            outbound: BytesMut::new(),
            session: None,
            worker: None,
            of_broker: false,
            heartbeat: RepeatedHeartbeat::default(),
            stream,
            peer,
            id,
            permit,
            messages,
            to_self,
            shared,
        };
        let reason = connection.run().await;
        connection.end(reason).await;
    }
}

impl<S: ClientStream> Connection<S> {
    async fn run(&mut self) -> EndReason {
        loop {
            match poll_fn(|cx| self.poll(cx)).await {
                Event::Message(message) => {
                    if let Err(reason) = self.take_messages(message) {
                        return reason;
                    }
                }
                Event::Read(Ok(0) | Err(_)) | Event::Written(Err(_)) => return EndReason::Peer,
                Event::Read(Ok(bytes)) => {
                    self.last_moved = Instant::now();
                    self.shared.counters.received_bytes.add(bytes as u64);
                    if let Err(error) = self.take_requests() {
                        let _ = self.flush();
                        return EndReason::BrokenFrame(error);
                    }
                }
                Event::Written(Ok(bytes)) => {
                    self.wrote(bytes);
                    // Requests that had to wait until the peer took its responses.
                    if let Err(error) = self.take_requests() {
                        return EndReason::BrokenFrame(error);
                    }
                }
                Event::Timer => {
                    if let Some(reason) = self.check_time() {
                        return reason;
                    }
                }
            }
            if self.flush().is_err() {
                return EndReason::Peer;
            }
            if self.is_blocked() {
                self.watch_stall();
            }
        }
    }

    /// Waits for the next event. Responses of the worker go before new requests.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if let Poll::Ready(Some(message)) = self.messages.poll_recv(cx) {
            return Poll::Ready(Event::Message(message));
        }
        if !self.outbound.is_empty()
            && let Poll::Ready(wrote) = Pin::new(&mut self.stream).poll_write(cx, &self.outbound)
        {
            return Poll::Ready(Event::Written(wrote));
        }
        if !self.is_blocked()
            && let Poll::Ready(read) = self.poll_read(cx)
        {
            return Poll::Ready(Event::Read(read));
        }
        self.timer.as_mut().poll(cx).map(|()| Event::Timer)
    }

    /// Reads what has arrived. The buffer is allocated only then, so that an idle connection has none.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.inbound.capacity() == 0 {
            std::task::ready!(self.stream.poll_read_ready(cx))?;
        }
        if self.inbound.capacity() - self.inbound.len() < READ_BYTES / 2 {
            self.inbound.reserve(self.inbound.len().clamp(READ_BYTES, READ_BYTES_MAX));
        }
        pin!(self.stream.read_buf(&mut self.inbound)).poll(cx)
    }

    /// Whether the peer has left too many responses unread: then none of its requests is decoded.
    fn is_blocked(&self) -> bool {
        self.outbound.len() > self.shared.options.limits.write_buffer_bytes
    }

    /// Takes the messages of other tasks, mostly responses of the worker.
    fn take_messages(&mut self, first: ToConnection) -> Result<(), EndReason> {
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                ToConnection::Respond(response) => {
                    let Response { opaque, reply, permit } = *response;
                    self.respond(Some(opaque), &reply);
                    drop(permit);
                }
                ToConnection::Close(reason) => {
                    let _ = self.flush();
                    return Err(EndReason::Closed(reason));
                }
            }
            next = self.messages.try_recv().ok();
        }
        Ok(())
    }

    /// Writes as much as the socket takes now.
    fn flush(&mut self) -> io::Result<()> {
        while !self.outbound.is_empty() {
            match self.stream.try_write(&self.outbound) {
                Ok(bytes) => self.wrote(bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        free_if_empty(&mut self.outbound, FLUSH_BYTES * 2);
        Ok(())
    }

    fn wrote(&mut self, bytes: usize) {
        self.outbound.advance(bytes);
        self.last_moved = Instant::now();
        self.shared.counters.sent_bytes.add(bytes as u64);
    }

    /// The timer went off: frees buffers, ends a connection on which nothing moved, and sets the timer again.
    fn check_time(&mut self) -> Option<EndReason> {
        let limits = &self.shared.options.limits;
        let idle = self.last_moved.elapsed();
        if idle >= limits.idle {
            return Some(EndReason::Idle);
        }
        if self.is_blocked() && idle >= limits.write_stall {
            return Some(EndReason::SlowReader);
        }
        if idle >= FREE_BUFFERS_AFTER {
            free_if_empty(&mut self.inbound, 0);
            free_if_empty(&mut self.outbound, 0);
        }
        let next = if idle < FREE_BUFFERS_AFTER { limits.idle.min(FREE_BUFFERS_AFTER) } else { limits.idle };
        self.timer.as_mut().reset(self.last_moved + next);
        if self.is_blocked() {
            self.watch_stall();
        }
        None
    }

    /// Makes sure that the timer goes off when the peer has read nothing for too long.
    fn watch_stall(&mut self) {
        let due = self.last_moved + self.shared.options.limits.write_stall;
        if self.timer.deadline() > due {
            self.timer.as_mut().reset(due);
        }
    }

    /// Closes the socket at once, and reports the end to liveness when all ordered requests have their outcome.
    async fn end(self, reason: EndReason) {
        let Self { shared, stream, peer, id, worker, of_broker, session, permit, messages, .. } = self;
        shared.registry.remove(id);
        // Counted before the socket closes, so that a peer that sees the close finds it counted.
        let by = reason.record(&shared, peer);
        drop((stream, messages));
        if let Some((tasks, running)) = worker {
            drop(tasks);
            let _ = running.await;
        }
        if of_broker && session.is_some() {
            shared.service.closed(id, by);
        }
        drop(permit);
    }
}

/// Frees an empty buffer with room for more than `bytes_max`.
fn free_if_empty(buffer: &mut BytesMut, bytes_max: usize) {
    if buffer.is_empty() && buffer.capacity() > bytes_max {
        *buffer = BytesMut::new();
    }
}
