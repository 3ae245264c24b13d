//! The way of a command to the log, and read barriers.

pub(crate) mod batcher;
pub(crate) mod proposer;
pub(crate) mod queue;
pub(crate) mod read_barrier;
