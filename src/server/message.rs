//! What other tasks send to a connection's task.

use super::admission::RequestPermit;
use crate::protocol::Reply;

/// A message to a connection.
#[derive(Debug)]
pub(super) enum ToConnection {
    /// Write this response. Boxed: each connection's channel has room for many from the start.
    Respond(Box<Response>),
    /// Close the connection.
    Close(CloseReason),
}

/// A response to write.
#[derive(Debug)]
pub(super) struct Response {
    /// Opaque of the request.
    pub(super) opaque: i32,
    pub(super) reply: Reply,
    /// Held until the connection has the response.
    pub(super) permit: RequestPermit,
}

/// Why another task closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloseReason {
    /// Its broker expired.
    BrokerExpired,
    /// The server stops.
    Stopping,
    /// This node was removed from its cluster.
    NodeRemoved,
}
