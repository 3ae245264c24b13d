//! Which nodes belong to the cluster, and which of them leads.
//!
//! - [`bootstrap`]: how empty nodes form a cluster.
//! - [`changes`]: learners join, voters are promoted, members are removed.
//! - [`transfer`]: the leader transfers its leadership to another voter.

pub(crate) mod bootstrap;
pub(crate) mod changes;
pub(crate) mod transfer;
