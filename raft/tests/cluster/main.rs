//! Consensus from outside: nodes in one process, over real sockets. One program, since most of the time to build it is what
//! openraft's generics become for our types.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod birth;
mod common;
mod faults;
mod load;
mod lost_messages;
mod members;
mod real_disk;
mod single;
mod three;
