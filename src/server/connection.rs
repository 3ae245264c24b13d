//! One connection: one task that cuts its bytes into requests, answers look-ups at once, hands the rest to a
//! worker, and writes what is ready once per buffer.

use super::Shared;
use super::admission::Seat;
use super::heartbeat::LastHeartbeat;
use super::registry::{ToConnection, Why};
use super::socket::ClientStream;
use super::worker::{self, Answer, Task, Ticket};
use crate::handlers::is_of_broker;
use crate::liveness::{ClosedBy, SessionId};
use crate::protocol::{Reply, remarks};
use crate::service::{Progress, Session};
use crate::wire::codes::{request, result::SYSTEM_BUSY};
use crate::wire::{Decoder, RemotingCommand, Repeat, WireError};
use bytes::{Buf, BytesMut};
use std::future::Future;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use storage::RouteInfo;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};

/// Room for a read into an empty buffer, bytes.
const READ_BYTES: usize = 8 << 10;
/// The most that a read makes room for at one time, bytes: a buffer grows with what was received.
const READ_BYTES_MAX: usize = 1 << 20;
/// Answers are written at the latest when there are as many bytes of them; larger empty buffers are given back.
const FLUSH_BYTES: usize = 256 << 10;
/// A connection at rest for this long gives its buffers back.
const REST: Duration = Duration::from_secs(20);

/// Why a connection ended.
#[derive(Debug)]
enum Ended {
    /// The peer closed or reset it, or vanished.
    ByPeer,
    /// Nothing moved for too long.
    Idle,
    /// Bytes that are no requests.
    Broken(WireError),
    /// Answers that nobody takes.
    SlowReader,
    /// Another part of this process told it to.
    Told(Why),
}

/// What a connection waits for.
enum Happened {
    Told(ToConnection),
    Read(io::Result<usize>),
    Wrote(io::Result<usize>),
    TimeIsUp,
}

struct Connection<S> {
    shared: Arc<Shared>,
    stream: S,
    peer: SocketAddr,
    id: SessionId,
    /// Made with the first request: a PROXY header before it may name another peer.
    session: Option<Arc<Session>>,
    seat: Seat,
    decoder: Decoder,
    /// Bytes received and not yet cut into requests.
    inbound: BytesMut,
    /// Answers not yet taken by the socket.
    outbound: BytesMut,
    told: mpsc::UnboundedReceiver<ToConnection>,
    to_self: mpsc::UnboundedSender<ToConnection>,
    worker: Option<(mpsc::UnboundedSender<Task>, JoinHandle<()>)>,
    /// A broker has shown itself.
    of_broker: bool,
    heartbeat: LastHeartbeat,
    /// Something moved.
    last_moved: Instant,
    timer: Pin<Box<Sleep>>,
}

/// Serves a connection to its end, and tells liveness of it once all its registrations have their outcome. It can be
/// told to end from this call on, before it is first polled.
pub(super) fn serve<S: ClientStream>(
    shared: Arc<Shared>,
    stream: S,
    peer: SocketAddr,
    id: SessionId,
    seat: Seat,
) -> impl Future<Output = ()> + Send {
    let (to_self, told) = mpsc::unbounded_channel();
    shared.registry.add(id, to_self.clone());
    async move {
        let mut connection = Connection {
            decoder: Decoder::new(shared.options.limits.frame_bytes),
            timer: Box::pin(tokio::time::sleep(REST.min(shared.options.limits.idle))),
            last_moved: Instant::now(),
            inbound: BytesMut::new(),
            outbound: BytesMut::new(),
            session: None,
            worker: None,
            of_broker: false,
            heartbeat: LastHeartbeat::default(),
            stream,
            peer,
            id,
            seat,
            told,
            to_self,
            shared,
        };
        let ended = connection.exchange().await;
        connection.end(ended).await;
    }
}

impl<S: ClientStream> Connection<S> {
    async fn exchange(&mut self) -> Ended {
        loop {
            match poll_fn(|cx| self.poll(cx)).await {
                Happened::Told(message) => {
                    if let Err(ended) = self.take_messages(message) {
                        return ended;
                    }
                }
                Happened::Read(Ok(0) | Err(_)) | Happened::Wrote(Err(_)) => return Ended::ByPeer,
                Happened::Read(Ok(bytes)) => {
                    self.last_moved = Instant::now();
                    self.shared.counters.received_bytes.add(bytes as u64);
                    if let Err(error) = self.take_requests() {
                        let _ = self.flush();
                        return Ended::Broken(error);
                    }
                }
                Happened::Wrote(Ok(bytes)) => {
                    self.wrote(bytes);
                    // What had to wait until the peer took its answers.
                    if let Err(error) = self.take_requests() {
                        return Ended::Broken(error);
                    }
                }
                Happened::TimeIsUp => {
                    if let Some(ended) = self.look_at_time() {
                        return ended;
                    }
                }
            }
            if self.flush().is_err() {
                return Ended::ByPeer;
            }
            if self.is_blocked() {
                self.watch_stall();
            }
        }
    }

    /// Waits for whatever comes first. Answers of the worker go before new requests.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Happened> {
        if let Poll::Ready(Some(message)) = self.told.poll_recv(cx) {
            return Poll::Ready(Happened::Told(message));
        }
        if !self.outbound.is_empty()
            && let Poll::Ready(wrote) = Pin::new(&mut self.stream).poll_write(cx, &self.outbound)
        {
            return Poll::Ready(Happened::Wrote(wrote));
        }
        if !self.is_blocked()
            && let Poll::Ready(read) = self.poll_read(cx)
        {
            return Poll::Ready(Happened::Read(read));
        }
        self.timer.as_mut().poll(cx).map(|()| Happened::TimeIsUp)
    }

    /// Reads what is there. A buffer is made only when something is, so that a connection at rest has none.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.inbound.capacity() == 0 {
            std::task::ready!(self.stream.poll_read_ready(cx))?;
        }
        if self.inbound.capacity() - self.inbound.len() < READ_BYTES / 2 {
            self.inbound.reserve(self.inbound.len().clamp(READ_BYTES, READ_BYTES_MAX));
        }
        pin!(self.stream.read_buf(&mut self.inbound)).poll(cx)
    }

    /// More answers wait for the peer than it may leave untaken: none of its requests is looked at.
    fn is_blocked(&self) -> bool {
        self.outbound.len() > self.shared.options.limits.write_buffer_bytes
    }

    /// Cuts what was received into requests and begins each.
    fn take_requests(&mut self) -> Result<(), WireError> {
        let mut table = None;
        while !self.is_blocked() {
            if self.take_heartbeat() {
                continue;
            }
            let front = if self.of_broker { Repeat::front(&self.inbound) } else { None };
            let front: Option<Box<[u8]>> = front.map(Into::into);
            let Some(command) = self.decoder.next(&mut self.inbound)? else { break };
            if let Some(frame) = front {
                self.heartbeat.keep(&frame, &command);
            }
            if command.is_answer() {
                continue;
            }
            // Once per buffer: its count of holders is shared by all connections.
            let table = table.get_or_insert_with(|| self.shared.service.table());
            self.begin(command, table);
            if self.outbound.len() >= FLUSH_BYTES && self.flush().is_err() {
                break; // the next read or write tells
            }
        }
        Ok(())
    }

    /// Takes a heartbeat that came before.
    fn take_heartbeat(&mut self) -> bool {
        let Some((bytes, broker)) = self.heartbeat.again(&self.inbound) else { return false };
        self.shared.counters.requests.add_one(request::BROKER_HEARTBEAT);
        self.shared.service.hear_again(self.id, broker);
        self.inbound.advance(bytes);
        true
    }

    fn begin(&mut self, command: RemotingCommand, table: &RouteInfo) {
        self.shared.counters.requests.add_one(command.code);
        let session = self.session();
        if !self.of_broker && is_of_broker(command.code) {
            self.of_broker = true;
            if let Err(error) = self.stream.watch_for_death(&self.shared.options.dead_peer) {
                tracing::debug!(peer = %session.peer, %error, "keep-alive could not be set");
            }
        }
        let opaque = (!command.is_oneway()).then_some(command.opaque);
        let bytes = command.body.len();
        match self.shared.service.begin(&session, command, table) {
            Progress::Answered(reply) => self.answer(opaque, &reply),
            progress => match self.shared.admission.request(&self.seat, bytes) {
                Some(in_flight) => self.hand_over(Task { ticket: Ticket { opaque, in_flight }, progress }),
                None => self.busy(opaque),
            },
        }
    }

    fn session(&mut self) -> Arc<Session> {
        let (id, peer, proxied) = (self.id, self.peer, self.decoder.proxied());
        let make = || Arc::new(Session::new(id, proxied.unwrap_or(peer)));
        Arc::clone(self.session.get_or_insert_with(make))
    }

    fn answer(&mut self, opaque: Option<i32>, reply: &Reply) {
        if let Some(opaque) = opaque {
            reply.encode(opaque, self.shared.options.serialization, &mut self.outbound);
        }
    }

    fn busy(&mut self, opaque: Option<i32>) {
        if let Some(held_back) = self.shared.warnings.busy.allow() {
            tracing::warn!(peer = %self.peer, held_back, "too many requests under way: answered busy");
        }
        self.answer(opaque, &Reply::refused(SYSTEM_BUSY, remarks::BUSY));
    }

    fn hand_over(&mut self, task: Task) {
        let (tasks, _) = self.worker.get_or_insert_with(|| {
            let (tasks, from_connection) = mpsc::unbounded_channel();
            let answers = self.to_self.clone();
            (tasks, tokio::spawn(worker::run(from_connection, answers)))
        });
        // Bounded by the requests in flight. The worker lives as long as this sender.
        let _ = tasks.send(task);
    }

    /// Takes what others told it, answers above all.
    fn take_messages(&mut self, first: ToConnection) -> Result<(), Ended> {
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                ToConnection::Answer(answer) => {
                    let Answer { opaque, reply, in_flight } = *answer;
                    self.answer(Some(opaque), &reply);
                    drop(in_flight);
                }
                ToConnection::Close(why) => {
                    let _ = self.flush();
                    return Err(Ended::Told(why));
                }
            }
            next = self.told.try_recv().ok();
        }
        Ok(())
    }

    /// Writes what the socket takes now.
    fn flush(&mut self) -> io::Result<()> {
        while !self.outbound.is_empty() {
            match self.stream.try_write(&self.outbound) {
                Ok(bytes) => self.wrote(bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        release(&mut self.outbound, FLUSH_BYTES * 2);
        Ok(())
    }

    fn wrote(&mut self, bytes: usize) {
        self.outbound.advance(bytes);
        self.last_moved = Instant::now();
        self.shared.counters.sent_bytes.add(bytes as u64);
    }

    /// The timer went off: gives buffers back, ends what did not move, and sets it again.
    fn look_at_time(&mut self) -> Option<Ended> {
        let limits = &self.shared.options.limits;
        let still = self.last_moved.elapsed();
        if still >= limits.idle {
            return Some(Ended::Idle);
        }
        if self.is_blocked() && still >= limits.write_stall {
            return Some(Ended::SlowReader);
        }
        if still >= REST {
            release(&mut self.inbound, 0);
            release(&mut self.outbound, 0);
        }
        let next = if still < REST { limits.idle.min(REST) } else { limits.idle };
        self.timer.as_mut().reset(self.last_moved + next);
        if self.is_blocked() {
            self.watch_stall();
        }
        None
    }

    /// Makes sure that the timer goes off when the peer has taken nothing for too long.
    fn watch_stall(&mut self) {
        let due = self.last_moved + self.shared.options.limits.write_stall;
        if self.timer.deadline() > due {
            self.timer.as_mut().reset(due);
        }
    }

    /// The socket goes at once; liveness hears of it when all that was in flight in order has its outcome.
    async fn end(self, ended: Ended) {
        let Self { shared, stream, peer, id, worker, of_broker, session, seat, told, .. } = self;
        shared.registry.remove(id);
        // Who sees the close finds it counted.
        let by = record(&shared, peer, ended);
        drop((stream, told));
        if let Some((tasks, running)) = worker {
            drop(tasks);
            let _ = running.await;
        }
        if of_broker && session.is_some() {
            shared.service.closed(id, by);
        }
        drop(seat);
    }
}

/// Frees an empty buffer with room for more than `bytes_max`.
fn release(buffer: &mut BytesMut, bytes_max: usize) {
    if buffer.is_empty() && buffer.capacity() > bytes_max {
        *buffer = BytesMut::new();
    }
}

/// Counts and logs the end of a connection.
fn record(shared: &Shared, peer: SocketAddr, ended: Ended) -> ClosedBy {
    let (counters, warnings) = (&shared.counters, &shared.warnings);
    match ended {
        Ended::ByPeer => {
            counters.closed_by_peer.add_one();
            return ClosedBy::Peer;
        }
        Ended::Idle => {
            counters.closed_idle.add_one();
            tracing::debug!(%peer, "connection closed: idle");
        }
        Ended::Broken(WireError::Tls) => {
            counters.closed_tls.add_one();
            if let Some(held_back) = warnings.tls.allow() {
                tracing::warn!(%peer, held_back, "connection closed: {}", WireError::Tls);
            }
        }
        Ended::Broken(error) => {
            counters.closed_broken_frame.add_one();
            if let Some(held_back) = warnings.broken_frame.allow() {
                tracing::warn!(%peer, %error, held_back, "connection closed: broken frame");
            }
        }
        Ended::SlowReader => {
            counters.closed_slow_reader.add_one();
            if let Some(held_back) = warnings.slow_reader.allow() {
                tracing::warn!(%peer, held_back, "connection closed: its answers are not taken");
            }
        }
        Ended::Told(Why::Expired) => {
            counters.closed_expired.add_one();
            tracing::info!(%peer, "connection closed: its broker expired");
        }
        Ended::Told(Why::Removed) => {
            counters.closed_removed.add_one();
            tracing::debug!(%peer, "connection closed: this node was removed");
        }
        Ended::Told(Why::Stopping) => {}
    }
    ClosedBy::Us
}
