//! Limits of the RocketMQ port.

use std::time::Duration;

/// Limits for the peers. Each has a counter in [`super::Counters`] that grows when a peer meets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections at one time; one more is closed at once. An idle connection costs about 2 KiB.
    pub connections: usize,
    /// Requests of one connection in flight: those that need more than the tables of this node (writes, read barriers)
    /// and have no response yet. One more gets SYSTEM_BUSY.
    pub in_flight_per_connection: usize,
    /// The same over all connections.
    pub in_flight: usize,
    /// Bytes of such requests over all connections; beyond, SYSTEM_BUSY. An eighth is for those up to 64 KiB.
    pub in_flight_bytes: usize,
    /// Largest frame, its length field included, bytes. A longer one closes the connection.
    pub frame_bytes: usize,
    /// Time for a frame, from its first byte to its last. One that takes longer closes the connection.
    pub frame_time: Duration,
    /// Responses that a peer has not read yet, bytes. Beyond, the server reads and carries out no more of its requests,
    /// and closes the connection when the peer reads nothing for `write_stall`.
    pub write_buffer_bytes: usize,
    /// See `write_buffer_bytes`.
    pub write_stall: Duration,
    /// A connection without a byte in either direction for this long is closed.
    pub idle: Duration,
    /// How long a stopping server waits for the requests in flight.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            in_flight_per_connection: 512,
            in_flight: 65_536,
            in_flight_bytes: 1 << 30,
            frame_bytes: crate::wire::FRAME_MAX_BYTES,
            frame_time: Duration::from_secs(30),
            write_buffer_bytes: 1 << 20,
            write_stall: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            drain: Duration::from_secs(2),
        }
    }
}

/// How the server detects that a broker's host has vanished without closing its connections. Set on a connection with
/// its first broker request. Behind a TCP proxy the server sees the proxy only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadPeer {
    /// Idle time after which the kernel begins to probe. Zero: no keep-alive.
    pub keepalive_idle: Duration,
    /// Between two probes.
    pub keepalive_interval: Duration,
    /// Sent bytes or probes that stay unacknowledged for this long end the connection. Zero: the kernel's own.
    pub user_timeout: Duration,
}

impl Default for DeadPeer {
    fn default() -> Self {
        Self {
            keepalive_idle: Duration::from_secs(4),
            keepalive_interval: Duration::from_secs(2),
            user_timeout: Duration::from_secs(10),
        }
    }
}
