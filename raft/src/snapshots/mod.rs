//! Snapshots beside Raft's log.
//!
//! - [`driver`]: when this node makes a snapshot, and how far it purges the log.
//! - [`receiving`]: a snapshot that comes from the leader in parts.
//! - [`installer`]: when openraft may install a received snapshot.

pub(crate) mod driver;
pub(crate) mod installer;
pub(crate) mod receiving;
