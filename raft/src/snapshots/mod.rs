//! When snapshots are made and the log is purged.

pub(crate) mod driver;
