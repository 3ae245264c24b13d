//! What must hold for any bytes that a disk or a peer can give. The fuzz targets and the property tests run the same
//! functions; no other build has them. The first byte says how the rest is taken.

#[cfg(test)]
pub(crate) mod edits;
#[cfg(test)]
pub(crate) mod seeds;

pub use crate::log::checks::{log, marker};
pub use crate::route_info::checks::{commands, snapshot};
pub use crate::snapshots::sled_store::checks::stored_records;
