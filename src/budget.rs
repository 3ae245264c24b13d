//! The budgets of bytes that all client connections share, so that they cannot take all memory together.
//!
//! What takes memory is charged before it takes it, and holds a [`Charge`] that gives the bytes back when it is dropped.
//! Where the budget is full, a charge waits in order, is refused, or its connection is not read: the caller decides.
//!
//! To ensure correctness, charges that grow must not wait for each other for ever. So one at a time, in order, may go
//! beyond the budget (*overdraft*): it comes to its end, and gives back what it has. A budget is thus exceeded by one
//! largest frame, body or reply, and none of these is too large for it.

mod limits;

pub use limits::BudgetLimits;

use crate::counter::Counter;
use crate::warn_limit::WarnLimit;
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// A budget is counted in units of so many bytes.
const UNIT_BYTES: usize = 1 << 10;
/// Frames and replies up to this size have budgets of their own: large ones cannot keep them out.
pub(crate) const SMALL_BYTES: usize = 64 << 10;
/// What a connection may hold in either direction without a charge: look-ups, heartbeats and their replies never wait
/// for a budget.
pub(crate) const FREE_BYTES: usize = 32 << 10;

/// All budgets of a node.
#[derive(Debug)]
pub struct Budgets {
    /// Frames that have not arrived whole.
    pub frames: Arc<Budget>,
    /// The same, of frames up to 64 KiB.
    pub small_frames: Arc<Budget>,
    /// Registrations that are being parsed, compared and proposed, by the size of their inflated bodies.
    pub registrations: Arc<Budget>,
    /// Bodies of replies above 64 KiB, from before they are encoded until they are sent.
    pub replies: Arc<Budget>,
    /// Other unsent replies.
    pub small_replies: Arc<Budget>,
}

impl Budgets {
    /// Empty budgets. An eighth of those of frames and replies is for the small ones.
    #[must_use]
    pub fn new(limits: &BudgetLimits) -> Self {
        let (frames, replies) = (limits.incomplete_frames, limits.unsent_replies);
        Self {
            frames: Budget::new("frames", frames - frames / 8),
            small_frames: Budget::new("small_frames", frames / 8),
            registrations: Budget::new("registrations", limits.parsed_registrations),
            replies: Budget::new("replies", replies - replies / 8),
            small_replies: Budget::new("small_replies", replies / 8),
        }
    }

    /// All of them, for metrics.
    #[must_use]
    pub fn all(&self) -> [&Budget; 5] {
        [&self.frames, &self.small_frames, &self.registrations, &self.replies, &self.small_replies]
    }
}

/// A number of bytes that many may use together.
#[derive(Debug)]
pub struct Budget {
    /// What its bytes are held for.
    pub kind: &'static str,
    units_max: usize,
    units_left: Arc<Semaphore>,
    /// One permit: the right to go beyond.
    overdraft: Arc<Semaphore>,
    overdraft_units: Counter,
    /// Charges that had to wait.
    pub waited: Counter,
    /// Charges that were refused.
    pub refused: Counter,
    warnings: WarnLimit,
}

impl Budget {
    fn new(kind: &'static str, bytes_max: usize) -> Arc<Self> {
        let units_max = bytes_max.div_ceil(UNIT_BYTES).min(u32::MAX as usize);
        Arc::new(Self {
            kind,
            units_max,
            units_left: Arc::new(Semaphore::new(units_max)),
            overdraft: Arc::new(Semaphore::new(1)),
            overdraft_units: Counter::default(),
            waited: Counter::default(),
            refused: Counter::default(),
            warnings: WarnLimit::new(),
        })
    }

    /// Bytes charged now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let used = self.units_max - self.units_left.available_permits().min(self.units_max);
        (used as u64 + self.overdraft_units.get()) * UNIT_BYTES as u64
    }

    /// Its limit.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        (self.units_max * UNIT_BYTES) as u64
    }

    /// Charges bytes if they fit.
    pub(crate) fn try_charge(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        let mut charge = Charge::none(self);
        charge.try_grow_to(bytes).then_some(charge)
    }

    /// As [`Budget::try_charge`], and counts a refusal.
    pub(crate) fn charge_or_refuse(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        let charge = self.try_charge(bytes);
        if charge.is_none() {
            self.refuse();
        }
        charge
    }

    /// Counts and logs that something has to wait for room.
    pub(crate) fn wait(&self) {
        self.waited.add_one();
        self.warn();
    }

    /// Counts and logs that a request is answered SYSTEM_BUSY for lack of room.
    pub(crate) fn refuse(&self) {
        self.refused.add_one();
        self.warn();
    }

    fn warn(&self) {
        if let Some(held_back) = self.warnings.allow() {
            let (kind, limit) = (self.kind, self.bytes_max());
            tracing::warn!(kind, limit, held_back, "a budget is full: requests wait, or get SYSTEM_BUSY");
        }
    }

    /// Charges bytes; waits in order until they fit, or until it is their turn to go beyond the budget.
    pub(crate) async fn charge(self: Arc<Self>, bytes: usize) -> Charge {
        if let Some(charge) = self.try_charge(bytes) {
            return charge;
        }
        self.wait();
        let mut charge = Charge::none(&self);
        let units = bytes.div_ceil(UNIT_BYTES);
        let fits = u32::try_from(units).ok().filter(|_| units <= self.units_max);
        let overdraft = Arc::clone(&self.overdraft).acquire_owned();
        if let Some(units) = fits {
            let left = Arc::clone(&self.units_left).acquire_many_owned(units);
            tokio::select! {
                biased;
                units = left => charge.units = units.ok(),
                overdraft = overdraft => charge.overdraft = overdraft.ok().map(|permit| (permit, 0)),
            }
        } else {
            charge.overdraft = overdraft.await.ok().map(|permit| (permit, 0));
        }
        charge.try_grow_to(bytes);
        charge
    }

    /// As [`Budget::charge`]; `None`, and counted as refused, when the bytes do not fit in time.
    pub(crate) async fn charge_by(self: &Arc<Self>, deadline: Instant, bytes: usize) -> Option<Charge> {
        let charged = timeout_at(deadline, Arc::clone(self).charge(bytes)).await.ok();
        if charged.is_none() {
            self.refuse();
        }
        charged
    }
}

/// Bytes of a budget. Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    units: Option<OwnedSemaphorePermit>,
    /// The right to go beyond the budget, and how far it went.
    overdraft: Option<(OwnedSemaphorePermit, usize)>,
}

impl Charge {
    fn none(budget: &Arc<Budget>) -> Self {
        Self { budget: Arc::clone(budget), units: None, overdraft: None }
    }

    fn units(&self) -> usize {
        let within = self.units.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        within + self.overdraft.as_ref().map_or(0, |(_, units)| *units)
    }

    /// Bytes charged.
    pub(crate) fn bytes(&self) -> usize {
        self.units() * UNIT_BYTES
    }

    /// Charges more, up to `bytes` in all, if they fit. Less than before changes nothing.
    pub(crate) fn try_grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.div_ceil(UNIT_BYTES).saturating_sub(self.units());
        if more == 0 {
            return true;
        }
        if let Some((_, units)) = &mut self.overdraft {
            *units += more;
            self.budget.overdraft_units.add(more as u64);
            return true;
        }
        let Ok(wanted) = u32::try_from(more) else { return false };
        let Ok(permit) = Arc::clone(&self.budget.units_left).try_acquire_many_owned(wanted) else {
            return false;
        };
        self.add(permit);
        true
    }

    /// Takes the bytes of another charge of the same budget.
    pub(crate) fn merge(&mut self, mut other: Self) {
        if let Some(permit) = other.units.take() {
            self.add(permit);
        }
        if self.overdraft.is_none() {
            self.overdraft = other.overdraft.take();
        }
    }

    fn add(&mut self, permit: OwnedSemaphorePermit) {
        match &mut self.units {
            Some(units) => units.merge(permit),
            none => *none = Some(permit),
        }
    }

    /// Gives back what is charged beyond `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let mut less = self.units().saturating_sub(bytes.div_ceil(UNIT_BYTES));
        if let Some((_, units)) = &mut self.overdraft {
            let beyond = less.min(*units);
            *units -= beyond;
            less -= beyond;
            self.budget.overdraft_units.sub(beyond as u64);
        }
        if let Some(units) = &mut self.units {
            drop(units.split(less.min(units.num_permits())));
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some((_, units)) = &self.overdraft {
            self.budget.overdraft_units.sub(*units as u64);
        }
    }
}

/// These bytes; `guard` is dropped with the last clone of them.
pub(crate) fn hold(bytes: Bytes, guard: impl Send + 'static) -> Bytes {
    struct Guarded<G>(Bytes, #[allow(dead_code, reason = "its drop counts")] G);
    impl<G> AsRef<[u8]> for Guarded<G> {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Guarded(bytes, guard))
}

#[cfg(test)]
mod tests;
