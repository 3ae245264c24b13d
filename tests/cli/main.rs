//! The real program, as an operator types it: what it prints, what it answers, how it exits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod commands;
mod process;
mod serving;
