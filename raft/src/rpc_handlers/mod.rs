//! What this node answers to its peers.

pub(crate) mod raft;
