//! One connection: one task that reads bytes, answers look-ups at once, hands other requests to a worker, and writes
//! the responses once per buffer.

mod buffered_stream;
mod end_reason;
mod inbound;
mod outbound;
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
use buffered_stream::BufferedStream;
use end_reason::EndReason;
use std::future::Future;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};

/// A connection that was idle for this long frees its buffers.
const FREE_BUFFERS_AFTER: Duration = Duration::from_secs(20);

/// An event of a connection.
enum Event {
    Message(ToConnection),
    Read(io::Result<usize>),
    Written(io::Result<()>),
    Timer,
}

struct Connection<S> {
    shared: Arc<Shared>,
    stream: BufferedStream<S>,
    peer: SocketAddr,
    id: SessionId,
    permit: ConnectionPermit,
    decoder: Decoder,
    /// Made with the first request, since a PROXY header before it may name another peer.
    session: Option<Arc<Session>>,
    /// Whether a request came that only brokers send.
    of_broker: bool,
    heartbeat: RepeatedHeartbeat,
    /// Whether there may be a whole frame that is not decoded.
    undecoded: bool,
    /// When the frame began of which a part is there; `None` while the server does not read it on.
    frame_begun: Option<Instant>,
    messages: mpsc::UnboundedReceiver<ToConnection>,
    to_self: mpsc::UnboundedSender<ToConnection>,
    worker: Option<(mpsc::UnboundedSender<Task>, JoinHandle<()>)>,
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
            stream: BufferedStream::new(stream, Arc::clone(&shared.counters), shared.service.budgets()),
            decoder: Decoder::new(shared.options.limits.frame_bytes),
            timer: Box::pin(tokio::time::sleep(FREE_BUFFERS_AFTER.min(shared.options.limits.idle))),
            session: None,
            worker: None,
            of_broker: false,
            heartbeat: RepeatedHeartbeat::default(),
            undecoded: false,
            frame_begun: None,
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
                Event::Read(Ok(_)) => self.undecoded = true,
                Event::Written(Ok(())) => {}
                Event::Timer => {
                    if let Some(reason) = self.check_time() {
                        return reason;
                    }
                }
            }
            if let Err(reason) = self.go_on() {
                return reason;
            }
            self.watch_deadline();
        }
    }

    /// Takes the requests that have arrived, those that had to wait among them, as far as the peer takes its responses.
    fn go_on(&mut self) -> Result<(), EndReason> {
        self.stream.flush().map_err(|_| EndReason::Peer)?;
        while self.undecoded && !self.is_blocked() {
            let taken = self.take_requests();
            let flushed = self.stream.flush();
            taken.map_err(EndReason::BrokenFrame)?;
            flushed.map_err(|_| EndReason::Peer)?;
        }
        Ok(())
    }

    /// Waits for the next event. Responses of the worker go before new requests.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if let Poll::Ready(Some(message)) = self.messages.poll_recv(cx) {
            return Poll::Ready(Event::Message(message));
        }
        if let Poll::Ready(written) = self.stream.poll_write(cx) {
            return Poll::Ready(Event::Written(written));
        }
        if !self.is_blocked()
            && let Poll::Ready(read) = self.stream.poll_read(cx, &self.decoder)
        {
            return Poll::Ready(Event::Read(read));
        }
        self.timer.as_mut().poll(cx).map(|()| Event::Timer)
    }

    /// Whether the peer has left too many responses unread: then none of its requests is read or decoded.
    fn is_blocked(&self) -> bool {
        let outbound = &self.stream.outbound;
        outbound.len() > self.shared.options.limits.write_buffer_bytes || !outbound.is_covered()
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
                    let _ = self.stream.flush();
                    return Err(EndReason::Closed(reason));
                }
            }
            next = self.messages.try_recv().ok();
        }
        Ok(())
    }

    /// The timer went off: frees buffers, ends a connection on which nothing moved, and sets the timer again.
    fn check_time(&mut self) -> Option<EndReason> {
        let limits = &self.shared.options.limits;
        let last_moved = self.stream.last_moved;
        let idle = last_moved.elapsed();
        if idle >= limits.idle {
            return Some(EndReason::Idle);
        }
        if self.is_blocked() && idle >= limits.write_stall {
            return Some(EndReason::SlowReader);
        }
        if self.frame_begun.is_some_and(|begun| begun.elapsed() >= limits.frame_time) {
            return Some(EndReason::SlowFrame);
        }
        if idle >= FREE_BUFFERS_AFTER {
            self.stream.free_buffers();
        }
        let next = if idle < FREE_BUFFERS_AFTER { limits.idle.min(FREE_BUFFERS_AFTER) } else { limits.idle };
        self.timer.as_mut().reset(last_moved + next);
        self.watch_deadline();
        None
    }

    /// Makes sure that the timer goes off when the peer has read nothing for too long, or a frame takes too long.
    fn watch_deadline(&mut self) {
        let limits = &self.shared.options.limits;
        let due = if self.is_blocked() {
            // The server reads nothing: the peer cannot complete its frame.
            self.frame_begun = None;
            self.stream.last_moved + limits.write_stall
        } else if let Some(begun) = self.frame_begun {
            begun + limits.frame_time
        } else {
            return;
        };
        if self.timer.deadline() > due {
            self.timer.as_mut().reset(due);
        }
    }

    /// Closes the socket at once, and reports the end to liveness when all ordered requests have their outcome.
    async fn end(self, reason: EndReason) {
        let Self { shared, stream, peer, id, worker, of_broker, permit, messages, .. } = self;
        shared.registry.remove(id);
        // Counted before the socket closes, so that a peer that sees the close finds it counted.
        let by = reason.record(&shared, peer);
        drop((stream, messages));
        if let Some((tasks, running)) = worker {
            drop(tasks);
            let _ = running.await;
        }
        if of_broker {
            shared.service.closed(id, by);
        }
        drop(permit);
    }
}
