//! Work that blocks.

use std::io;
use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs work that may block on a thread of its own. A runtime of one thread, as in a simulation, runs it at once: that
/// keeps the order of events.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return work();
    }
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
