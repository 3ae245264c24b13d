//! Why a connection ended: counted, logged, and reported to liveness.

use crate::liveness::ClosedBy;
use crate::server::message::CloseReason;
use crate::server::shared::Shared;
use crate::wire::WireError;
use std::net::SocketAddr;

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum EndReason {
    /// The peer closed or reset it, or vanished.
    Peer,
    /// No byte moved for too long.
    Idle,
    /// The peer sent bytes that are no requests.
    BrokenFrame(WireError),
    /// The peer does not read its responses.
    SlowReader,
    /// A frame was not there whole in time.
    SlowFrame,
    /// Another task of this process closed it.
    Closed(CloseReason),
}

impl EndReason {
    /// Counts and logs the end. Returns whether the peer or this node ended the connection.
    pub(super) fn record(self, shared: &Shared, peer: SocketAddr) -> ClosedBy {
        let (counters, warnings) = (&shared.counters, &shared.warnings);
        match self {
            Self::Peer => {
                counters.closed_by_peer.add_one();
                return ClosedBy::Peer;
            }
            Self::Idle => {
                counters.closed_idle.add_one();
                tracing::debug!(%peer, "connection closed: idle");
            }
            Self::BrokenFrame(WireError::Tls) => {
                counters.closed_tls.add_one();
                if let Some(held_back) = warnings.tls.allow() {
                    tracing::warn!(%peer, held_back, "connection closed: {}", WireError::Tls);
                }
            }
            Self::BrokenFrame(error) => {
                counters.closed_broken_frame.add_one();
                if let Some(held_back) = warnings.broken_frame.allow() {
                    tracing::warn!(%peer, %error, held_back, "connection closed: broken frame");
                }
            }
            Self::SlowReader => {
                counters.closed_slow_reader.add_one();
                if let Some(held_back) = warnings.slow_reader.allow() {
                    tracing::warn!(%peer, held_back, "connection closed: the peer does not read its responses");
                }
            }
            Self::SlowFrame => {
                counters.closed_slow_frame.add_one();
                if let Some(held_back) = warnings.slow_frame.allow() {
                    let limit = shared.options.limits.frame_time;
                    tracing::warn!(%peer, ?limit, held_back, "connection closed: a frame was not complete in time");
                }
            }
            Self::Closed(CloseReason::BrokerExpired) => {
                counters.closed_expired.add_one();
                tracing::info!(%peer, "connection closed: its broker expired");
            }
            Self::Closed(CloseReason::NodeRemoved) => {
                counters.closed_removed.add_one();
                tracing::debug!(%peer, "connection closed: this node was removed");
            }
            Self::Closed(CloseReason::Stopping) => {}
        }
        ClosedBy::ThisNode
    }
}
