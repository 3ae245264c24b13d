//! The real program in processes of its own: what it prints, what it answers, how it exits, and how a cluster of it behaves
//! when processes die, stand still or lose each other.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "time limits of processes are real time")]

mod acting_master;
mod addresses;
mod budgets;
mod client;
mod commands;
mod conflicts;
mod dev;
mod graceful_stop;
mod joining_nodes;
mod leader_changes;
mod logging;
mod lost_broker_connections;
mod mass_eviction_guard;
mod open_files;
mod partitions;
mod paused_nodes;
mod play;
mod process;
mod registration_load;
mod serving;
mod settings;
mod starting;
mod tcp_proxy;
mod ten_thousand_clients;
