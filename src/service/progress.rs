//! How far a request has come, and how the rest of it is scheduled among the other requests of its connection.

use crate::protocol::Reply;
use std::future::Future;
use std::pin::Pin;
use tokio::time::Instant;

/// How far a request has come.
pub(crate) enum Progress {
    /// It is done.
    Done(Reply),
    /// The rest runs concurrently with the other requests of its connection.
    Concurrent(Work),
    /// The rest runs in the order of its connection's writes, after the writes before it.
    Ordered(Work),
    /// As `Ordered`, but if its turn has not come by then, the request is refused and certainly not carried out.
    OrderedUntil(Instant, Work),
}

/// The rest of a request.
pub(crate) type Work = Pin<Box<dyn Future<Output = Progress> + Send>>;
