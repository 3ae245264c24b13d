//! Consensus from outside: nodes in this process, over real sockets. One program, since most of its build time goes into
//! openraft's generics.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod alerts;
mod batching;
mod bootstrap;
mod common;
mod disk_faults;
mod leaderless;
mod limits;
mod lost_messages;
mod members;
mod real_disk;
mod single;
mod slow_disks;
mod strangers;
mod three;
