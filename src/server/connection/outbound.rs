//! Replies that the socket has not taken.

use crate::budget::{Budgets, Charge, FREE_BYTES, SMALL_BYTES};
use crate::protocol::Reply;
use crate::wire::Serialization;
use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
use std::sync::Arc;

/// An empty buffer that was larger is freed at once, bytes.
const KEPT_BYTES: usize = 64 << 10;

/// The unsent replies of a connection. A large body stays where it is, and holds its own charge; all else is copied into
/// one buffer, which is charged beyond [`FREE_BYTES`].
pub(super) struct Outbound {
    /// What goes before `buffer`.
    chunks: VecDeque<Chunk>,
    buffer: BytesMut,
    /// Bytes of the chunks that are large bodies.
    body_bytes: usize,
    /// Bytes of the other chunks.
    copied_bytes: usize,
    /// The most that was in the buffer since it was last freed.
    peak_bytes: usize,
    charge: Option<Charge>,
    /// Whether the buffer is charged as far as it must be.
    covered: bool,
    budgets: Arc<Budgets>,
}

struct Chunk {
    bytes: Bytes,
    is_body: bool,
}

impl Outbound {
    pub(super) fn new(budgets: Arc<Budgets>) -> Self {
        Self {
            chunks: VecDeque::new(),
            buffer: BytesMut::new(),
            body_bytes: 0,
            copied_bytes: 0,
            peak_bytes: 0,
            charge: None,
            covered: true,
            budgets,
        }
    }

    /// Bytes that are unsent.
    pub(super) fn len(&self) -> usize {
        self.body_bytes + self.copied_bytes + self.buffer.len()
    }

    /// The bytes that are sent next; empty when all are sent.
    pub(super) fn front(&self) -> &[u8] {
        self.chunks.front().map_or(&self.buffer, |chunk| &chunk.bytes)
    }

    /// The socket has taken so many bytes of the front.
    pub(super) fn advance(&mut self, bytes: usize) {
        if let Some(chunk) = self.chunks.front_mut() {
            chunk.bytes.advance(bytes);
            if chunk.is_body {
                self.body_bytes -= bytes;
            } else {
                self.copied_bytes -= bytes;
            }
            if chunk.bytes.is_empty() {
                self.chunks.pop_front();
            }
        } else {
            self.buffer.advance(bytes);
        }
        self.covered |= self.copied() <= FREE_BYTES;
    }

    /// Appends a response, and charges what the buffer holds then, if the budget has room.
    pub(super) fn push(&mut self, opaque: i32, reply: &Reply, serialization: Serialization) {
        let with_body = reply.encode_head(opaque, serialization, &mut self.buffer);
        if with_body && reply.body.len() > SMALL_BYTES {
            let before = self.buffer.split().freeze();
            self.copied_bytes += before.len();
            self.body_bytes += reply.body.len();
            self.chunks.push_back(Chunk { bytes: before, is_body: false });
            self.chunks.push_back(Chunk { bytes: reply.body.clone(), is_body: true });
        } else if with_body {
            self.buffer.extend_from_slice(&reply.body);
        }
        self.peak_bytes = self.peak_bytes.max(self.copied());
        self.cover();
    }

    fn copied(&self) -> usize {
        self.copied_bytes + self.buffer.len()
    }

    /// Whether more may be added. If not, the budget is full.
    pub(super) fn is_covered(&self) -> bool {
        self.covered
    }

    /// Charges what the buffer holds, if the budget has room.
    pub(super) fn cover(&mut self) {
        let copied = self.copied();
        let before = self.covered;
        self.covered = copied <= FREE_BYTES || self.charge_for(copied);
        if before && !self.covered {
            self.budgets.small_replies.wait();
        }
    }

    fn charge_for(&mut self, copied: usize) -> bool {
        match &mut self.charge {
            // In few steps: threads share the budget.
            Some(charge) => charge.bytes() >= copied || charge.try_grow_to(copied.next_power_of_two()),
            none => {
                *none = self.budgets.small_replies.try_charge(copied.next_power_of_two());
                none.is_some()
            }
        }
    }

    /// Frees an empty buffer that was larger than usual.
    pub(super) fn shrink(&mut self) {
        if self.peak_bytes > KEPT_BYTES {
            self.free_if_empty();
        }
    }

    /// Frees an empty buffer.
    pub(super) fn free_if_empty(&mut self) {
        if self.len() == 0 {
            (self.buffer, self.chunks) = (BytesMut::new(), VecDeque::new());
            (self.charge, self.peak_bytes) = (None, 0);
        }
    }
}
