//! What must hold for any bytes that a disk or a peer can give. The fuzz targets and the property tests run the same
//! functions; no other build has them. The first byte says how the rest is taken.
//!
//! With the feature `test-kit`, the tests of other crates share what stands here beside these functions.

#[cfg(any(test, feature = "test-kit"))]
pub mod edits;
#[cfg(any(test, feature = "test-kit"))]
pub mod memory_log;
#[cfg(any(test, feature = "test-kit"))]
pub mod seeds;

#[cfg(any(test, fuzzing))]
pub use crate::log::checks::{log, marker};
#[cfg(any(test, fuzzing))]
pub use crate::route_info::checks::{commands, snapshot};
#[cfg(any(test, fuzzing))]
pub use crate::snapshots::sled_store::checks::stored_records;
