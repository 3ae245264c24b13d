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
        let mut table = None;
        while !self.is_blocked() {
            if self.take_repeated_heartbeat(&mut table) {
                continue;
            }
            let frame = if self.of_broker { Repeat::front(&self.stream.inbound) } else { None };
            let frame: Option<Box<[u8]>> = frame.map(Into::into);
            let Some(command) = self.decoder.next(&mut self.stream.inbound)? else { break };
            if let Some(frame) = frame {
                self.heartbeat.remember(&frame, &command);
            }
            if command.is_response() {
                continue;
            }
            // One clone per buffer: all connections share the reference count.
            let table = table.get_or_insert_with(|| self.shared.service.table());
            self.begin(command, table);
            if self.stream.outbound.len() >= FLUSH_BYTES && self.stream.flush().is_err() {
                break; // the next read or write reports the error
            }
        }
        Ok(())
    }

    /// Takes a heartbeat that repeats the last one, without decoding it.
    fn take_repeated_heartbeat(&mut self, table: &mut Option<Arc<RouteInfo>>) -> bool {
        let Some((bytes, broker)) = self.heartbeat.matches(&self.stream.inbound) else { return false };
        self.shared.counters.requests.add_one(request::BROKER_HEARTBEAT);
        // It is oneway: a refusal is counted and gets no response.
        let table = table.get_or_insert_with(|| self.shared.service.table());
        let _ = self.shared.service.heartbeat(self.id, broker, table);
        self.stream.inbound.advance(bytes);
        true
    }

    fn begin(&mut self, command: RemotingCommand, table: &RouteInfo) {
        self.shared.counters.requests.add_one(command.code);
        let session = self.session();
        if !self.of_broker && is_from_broker(command.code) {
            self.of_broker = true;
            if let Err(error) = self.stream.socket.detect_dead_peer(&self.shared.options.dead_peer) {
                tracing::debug!(peer = %session.peer, %error, "keep-alive could not be set");
            }
        }
        let opaque = (!command.is_oneway()).then_some(command.opaque);
        let bytes = command.body.len();
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
            reply.encode(opaque, self.shared.options.serialization, &mut self.stream.outbound);
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
