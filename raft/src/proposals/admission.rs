//! How many bytes of commands may be on their way, from their arrival at this node until it has applied them.
//!
//! Large commands have room of their own: behind a thousand large registrations a small command would wait for all of
//! them, and its client for none.

use std::sync::Arc;
use storage::limits::{ALONE_BYTES, PROPOSED_BYTES_MAX};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Room for commands.
pub(super) struct Admission {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Default for Admission {
    fn default() -> Self {
        let room = || Arc::new(Semaphore::new(PROPOSED_BYTES_MAX));
        Self { small: room(), large: room() }
    }
}

impl Admission {
    /// Waits for room, in order. The room is given back with the permit. A command that is larger than all of the room
    /// takes all of it.
    ///
    /// # Errors
    /// The reason to refuse it: there was no room in time.
    pub(super) async fn admit(
        &self,
        bytes: usize,
        deadline: Instant,
    ) -> Result<OwnedSemaphorePermit, String> {
        let room = if bytes > ALONE_BYTES { &self.large } else { &self.small };
        let permits = u32::try_from(bytes.min(PROPOSED_BYTES_MAX)).unwrap_or(u32::MAX);
        match timeout_at(deadline, Arc::clone(room).acquire_many_owned(permits)).await {
            Ok(Ok(permit)) => Ok(permit),
            // The room is never closed.
            Ok(Err(e)) => Err(e.to_string()),
            Err(_) => Err(format!(
                "more commands wait than fit in {PROPOSED_BYTES_MAX} bytes: try again, or let fewer brokers register \
                 at once"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    #[tokio::test(start_paused = true)]
    async fn small_commands_do_not_wait_for_large_ones() {
        let admission = Admission::default();
        let large = admission.admit(PROPOSED_BYTES_MAX + 1, soon()).await.unwrap();
        assert!(admission.admit(ALONE_BYTES + 1, soon()).await.unwrap_err().contains("try again"));
        assert!(admission.admit(ALONE_BYTES, soon()).await.is_ok());
        drop(large);
        assert!(admission.admit(ALONE_BYTES + 1, soon()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn room_is_given_in_order() {
        let admission = Admission::default();
        let first = admission.admit(PROPOSED_BYTES_MAX - ALONE_BYTES, soon()).await.unwrap();
        let (second, third) =
            (admission.admit(PROPOSED_BYTES_MAX, soon()), admission.admit(ALONE_BYTES + 1, soon()));
        tokio::pin!(second);
        assert!(futures_util::poll!(second.as_mut()).is_pending());
        assert!(third.await.is_err(), "it fits, but another one came before");
        drop(first);
        assert!(second.await.is_ok());
    }
}
