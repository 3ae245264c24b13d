//! The real program, as an operator types it: what it prints, what it answers, how it exits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "time limits of processes are real time")]

mod acting_master;
mod addresses;
mod apart;
mod client;
mod commands;
mod conflicts;
mod crowd;
mod cut_off;
mod dev;
mod guard;
mod leaders;
mod newcomers;
mod paused;
mod play;
mod process;
mod serving;
mod settings;
mod stopping;
mod wire;
