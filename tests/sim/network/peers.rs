//! The network between nodes, as consensus sees it.

use super::{Network, Place};
use crate::host::Clock;
use raft::{BoxedStream, NetworkFuture, PeerNetwork};
use std::sync::Arc;
use std::time::Duration;

/// How long an end bears a path that is cut: keep-alive and user time-out of the real connections.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);

pub(crate) struct SimPeers {
    pub(crate) network: Arc<Network>,
    pub(crate) place: Place,
    pub(crate) clock: Clock,
}

/// Where a node listens for others.
pub(crate) fn peer_address(node: Place) -> String {
    format!("{node}.peers")
}

/// Where a node listens for brokers and clients.
pub(crate) fn client_address(node: Place) -> String {
    format!("{node}.clients")
}

impl PeerNetwork for SimPeers {
    fn connect<'a>(&'a self, address: &'a str) -> NetworkFuture<'a, BoxedStream> {
        Box::pin(async move {
            let stream = self.network.connect(self.place, self.clock, address, Some(PATIENCE)).await?;
            Ok(Box::new(stream) as BoxedStream)
        })
    }

    fn accept(&self) -> NetworkFuture<'_, (BoxedStream, String)> {
        Box::pin(async move {
            let (stream, from) = self.network.accept(&peer_address(self.place), self.clock).await;
            Ok((Box::new(stream) as BoxedStream, format!("node {from}")))
        })
    }
}
