//! Random numbers from a seed, the same for ever, and a node's view of the outside world made of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use storage::runtime::Runtime;

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A small generator.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    /// The dice of one purpose: what others draw does not change what it draws.
    pub(crate) fn of(seed: u64, purpose: &str, number: u64) -> Self {
        let start = purpose.bytes().fold(mix(seed ^ GAMMA), |state, byte| mix(state ^ u64::from(byte)));
        Self(mix(start ^ number.wrapping_mul(GAMMA)))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }

    /// From `from` on, below `to`.
    pub(crate) fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from)
    }

    pub(crate) fn ms(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.within(from, to))
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.next() as usize % from.len()]) }
    }
}

/// Wall clock and randomness of one process.
pub(crate) struct SeededRuntime {
    state: AtomicU64,
    unix_ms: u64,
}

impl SeededRuntime {
    /// `unix_ms`: what its wall clock shows. It stands still: nothing may be decided by it.
    pub(crate) fn new(mut dice: Dice, unix_ms: u64) -> Self {
        Self { state: AtomicU64::new(dice.next()), unix_ms }
    }
}

impl Runtime for SeededRuntime {
    fn unix_ms(&self) -> u64 {
        self.unix_ms
    }

    fn random_u64(&self) -> u64 {
        mix(self.state.fetch_add(GAMMA, Ordering::Relaxed))
    }
}
