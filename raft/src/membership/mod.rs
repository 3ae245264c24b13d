//! Bootstrap, changes of the membership, leadership transfer.

pub(crate) mod bootstrap;
pub(crate) mod changes;
pub(crate) mod transfer;
