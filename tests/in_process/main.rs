//! Nodes in this process, one to five, over real sockets and real disks: what they answer, and what they do when nodes
//! stop, die or join.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod client;
mod connections;
mod limits;
mod liveness;
mod nodes;
mod readiness;
mod reads;
mod recordings;
mod registration;
mod requests;
mod snapshots;
