//! Bytes that a connection has received and not decoded.

use crate::budget::{Budget, Budgets, Charge, FREE_BYTES, SMALL_BYTES};
use bytes::BytesMut;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Room for a read into an empty buffer, bytes.
const READ_BYTES: usize = 8 << 10;

/// The buffer. It grows with the bytes that were received, to twice their number at most, and never with the length that a
/// frame claims. Beyond [`FREE_BYTES`] it is charged before it grows, and given back with the frame that needed it.
pub(super) struct Inbound {
    pub(super) buffer: BytesMut,
    charge: Option<Charge>,
    /// A charge that the budget has no room for now.
    waiting: Option<Pin<Box<dyn Future<Output = Charge> + Send>>>,
    budgets: Arc<Budgets>,
}

impl Inbound {
    pub(super) fn new(budgets: Arc<Budgets>) -> Self {
        Self { buffer: BytesMut::new(), charge: None, waiting: None, budgets }
    }

    /// Makes room for a read; pending while the budget has none. `frame_bytes`: size of the frame at the front, once its
    /// length is known.
    pub(super) fn poll_room(
        &mut self,
        cx: &mut Context<'_>,
        frame_bytes: impl FnOnce(&BytesMut) -> Option<usize>,
    ) -> Poll<()> {
        let received = self.buffer.len();
        if self.buffer.capacity() - received >= READ_BYTES / 2 {
            return Poll::Ready(());
        }
        let next_read = received + READ_BYTES;
        let Some(frame_bytes) = frame_bytes(&self.buffer).filter(|_| next_read > FREE_BYTES) else {
            self.buffer.reserve(READ_BYTES);
            return Poll::Ready(());
        };
        let capacity = (2 * received).min(frame_bytes + READ_BYTES).max(next_read);
        let small = frame_bytes <= SMALL_BYTES;
        let budget = if small { &self.budgets.small_frames } else { &self.budgets.frames };
        std::task::ready!(poll_charge(&mut self.charge, &mut self.waiting, budget, capacity, cx));
        // Grows in place: the kernel moves pages, and gets them back at the end.
        self.buffer.reserve(capacity - received);
        Poll::Ready(())
    }

    /// The frame at the front was taken: its body has the bytes now, and counts as a request in flight.
    pub(super) fn frame_taken(&mut self) {
        if self.charge.take().is_some() {
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
    }

    /// Frees an empty buffer.
    pub(super) fn free_if_empty(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
    }
}

/// Lets a charge grow to `bytes`.
fn poll_charge(
    charge: &mut Option<Charge>,
    waiting: &mut Option<Pin<Box<dyn Future<Output = Charge> + Send>>>,
    budget: &Arc<Budget>,
    bytes: usize,
    cx: &mut Context<'_>,
) -> Poll<()> {
    if waiting.is_none() {
        match charge {
            Some(charge) => {
                charge.try_grow_to(bytes);
            }
            None => *charge = budget.try_charge(bytes),
        }
    }
    let charged = charge.as_ref().map_or(0, Charge::bytes);
    if charged >= bytes {
        return Poll::Ready(());
    }
    let more = || Box::pin(Arc::clone(budget).charge(bytes - charged)) as Pin<Box<_>>;
    let more = std::task::ready!(waiting.get_or_insert_with(more).as_mut().poll(cx));
    *waiting = None;
    match charge {
        Some(charge) => charge.merge(more),
        None => *charge = Some(more),
    }
    Poll::Ready(())
}
