//! The servers that recordings are replayed on.
//!
//! With `RECORDINGS_SERVERS=host:port,…` these are running ones, fresh, with default settings: how a build that runs
//! elsewhere, or Java, is compared. They are then used by one recording at a time (`--test-threads=1`).

use super::data::{Op, Recording};
use std::net::SocketAddr;
use tokio::sync::{Mutex, MutexGuard};

/// Which servers take a recording's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum On {
    /// The only node of a cluster.
    OneNode,
    /// A follower of three.
    Follower,
    /// All of three, one after the other.
    Spread,
}

/// Running servers.
pub(super) struct Servers {
    /// Where connections go, in turn.
    pub(super) addresses: Vec<SocketAddr>,
}

impl Servers {
    /// Starts fresh ones that write headers as the folder was recorded.
    pub(super) async fn start(folder: &str, on: On) -> Self {
        let given = std::env::var("RECORDINGS_SERVERS").expect("RECORDINGS_SERVERS=host:port,…");
        let addresses: Vec<SocketAddr> = given.split(',').map(|address| address.parse().unwrap()).collect();
        assert!(!addresses.is_empty(), "no server for {folder} on {on:?}");
        Self { addresses }
    }

    pub(super) async fn stop(self) {}
}

/// Recordings that play a broker's port use the same two ports: one at a time.
pub(super) async fn alone(recording: &Recording) -> Option<MutexGuard<'static, ()>> {
    static PORTS: Mutex<()> = Mutex::const_new(());
    let listens = recording.steps.iter().any(|step| step.op == Op::Listen);
    if listens { Some(PORTS.lock().await) } else { None }
}
