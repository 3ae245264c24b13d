//! The requests of a connection: decodes them, answers look-ups at once, and hands the rest to the worker.

use super::Connection;
use crate::handlers::is_from_broker;
use crate::protocol::Reply;
use crate::server::socket::ClientStream;
use crate::server::worker::{self, RequestContext, Task};
use crate::service::{Progress, Session};
use crate::wire::codes::request;
use crate::wire::{RemotingCommand, Repeat, WireError};
use bytes::Buf;
use std::sync::Arc;
use storage::RouteInfo;
use tokio::sync::mpsc;

/// Size of the outbound buffer at which it is written at the latest, bytes.
const FLUSH_BYTES: usize = 256 << 10;

impl<S: ClientStream> Connection<S> {
    /// Decodes the received bytes into requests and begins each.
    pub(super) fn take_requests(&mut self) -> Result<(), WireError> {
        let (mut table, mut taken) = (None, false);
        while self.may_take_more() {
            if self.take_repeated_heartbeat(&mut table) {
                taken = true;
                continue;
            }
            let inbound = &mut self.stream.inbound.buffer;
            let frame = if self.of_broker { Repeat::front(inbound) } else { None };
            let frame: Option<Box<[u8]>> = frame.map(Into::into);
            let before = inbound.len();
            let Some(command) = self.decoder.next(inbound)? else {
                self.undecoded = false;
                break;
            };
            let bytes = before - inbound.len();
            taken = true;
            if let Some(frame) = frame {
                self.heartbeat.remember(&frame, &command);
            }
            if command.is_response() {
                continue;
            }
            // One clone per buffer: all connections share the reference count.
            let table = table.get_or_insert_with(|| self.shared.service.table());
            self.begin(command, bytes, table);
            if self.stream.outbound.len() >= FLUSH_BYTES && self.stream.flush().is_err() {
                break; // the next read or write reports the error
            }
        }
        if taken {
            self.stream.inbound.frame_taken();
        }
        self.note_frame(taken);
        Ok(())
    }

    /// Whether the peer has not left too many responses unread, after another attempt to send them.
    fn may_take_more(&mut self) -> bool {
        if !self.is_blocked() {
            return true;
        }
        // If this fails, the next read or write reports the error.
        let _ = self.stream.flush();
        self.stream.outbound.cover();
        !self.is_blocked()
    }

    /// Notes when the frame at the front began. While the peer is blocked, its frames have all the time.
    fn note_frame(&mut self, taken: bool) {
        if self.stream.inbound.buffer.is_empty() || self.is_blocked() {
            self.frame_begun = None;
        } else if taken || self.frame_begun.is_none() {
            self.frame_begun = Some(self.stream.last_moved);
        }
    }

    /// Takes a heartbeat that repeats the last one, without decoding it.
    fn take_repeated_heartbeat(&mut self, table: &mut Option<Arc<RouteInfo>>) -> bool {
        let Some((bytes, broker)) = self.heartbeat.matches(&self.stream.inbound.buffer) else { return false };
        self.shared.counters.requests.add_one(request::BROKER_HEARTBEAT);
        // It is oneway: a refusal is counted and gets no response.
        let table = table.get_or_insert_with(|| self.shared.service.table());
        let _ = self.shared.service.heartbeat(self.id, broker, table);
        self.stream.inbound.buffer.advance(bytes);
        true
    }

    /// Begins a request that came in a frame of `bytes`.
    fn begin(&mut self, command: RemotingCommand, bytes: usize, table: &RouteInfo) {
        self.shared.counters.requests.add_one(command.code);
        let session = self.session();
        if !self.of_broker && is_from_broker(command.code) {
            self.of_broker = true;
            if let Err(error) = self.stream.socket.detect_dead_peer(&self.shared.options.dead_peer) {
                tracing::debug!(peer = %session.peer, %error, "keep-alive could not be set");
            }
        }
        let opaque = (!command.is_oneway()).then_some(command.opaque);
        match self.shared.service.begin(&session, command, table) {
            Progress::Done(reply) => self.respond(opaque, &reply),
            progress => match self.shared.admission.request(&self.permit, bytes) {
                Some(permit) => {
                    self.send_to_worker(Task { context: RequestContext { opaque, permit }, progress });
                }
                None => self.respond_busy(opaque),
            },
        }
    }

    fn session(&mut self) -> Arc<Session> {
        let (id, peer, proxied) = (self.id, self.peer, self.decoder.proxied());
        let make = || Arc::new(Session::new(id, proxied.unwrap_or(peer)));
        Arc::clone(self.session.get_or_insert_with(make))
    }

    /// Appends a response to the outbound buffer, unless the request was oneway.
    pub(super) fn respond(&mut self, opaque: Option<i32>, reply: &Reply) {
        if let Some(opaque) = opaque {
            let outbound = &mut self.stream.outbound;
            outbound.push(opaque, reply, self.shared.options.serialization);
        }
    }

    fn respond_busy(&mut self, opaque: Option<i32>) {
        if let Some(held_back) = self.shared.warnings.busy.allow() {
            tracing::warn!(peer = %self.peer, held_back, "too many requests in flight: answered SYSTEM_BUSY");
        }
        self.respond(opaque, &Reply::busy());
    }

    fn send_to_worker(&mut self, task: Task) {
        let (tasks, _) = self.worker.get_or_insert_with(|| {
            let (tasks, from_connection) = mpsc::unbounded_channel();
            let connection = self.to_self.clone();
            (tasks, tokio::spawn(worker::run(from_connection, connection)))
        });
        // The permits bound the channel. The worker lives as long as this sender.
        let _ = tasks.send(task);
    }
}
