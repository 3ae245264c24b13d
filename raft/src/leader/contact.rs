//! The contact with the leader, and whether this node has caught up since the contact began.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A contact breaks when no leader is heard for this long.
const BROKEN_AFTER: Duration = Duration::from_secs(1);

/// The contact with the leader.
///
/// A contact breaks when nothing is heard of a leader for a second. What was acknowledged meanwhile is missing here,
/// also right after a leader is heard again, and its first messages may have waited in a socket while this process was
/// paused. So after each break the node must catch up with a read index of the leader, asked for in the new contact.
pub(super) struct Contact {
    begun: Instant,
    now: Mutex<Unbroken>,
    /// Milliseconds since `begun`. An atomic: look-ups read it.
    current_until_ms: AtomicU64,
}

/// The contact of now.
#[derive(Default)]
struct Unbroken {
    last: Option<Instant>,
    /// Counts the contacts.
    number: u64,
    /// This node has caught up in the contact of this number.
    caught_up_in: u64,
}

impl Contact {
    /// None yet.
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), now: Mutex::default(), current_until_ms: AtomicU64::new(0) }
    }

    /// Notes that a leader was heard, or that this node leads.
    pub(super) fn touch(&self) {
        let (mut contact, now) = (self.lock(), Instant::now());
        if contact.last.is_none_or(|last| now >= last + BROKEN_AFTER) {
            contact.number += 1;
        }
        contact.last = Some(now);
        self.publish(&contact);
    }

    /// When a leader was last heard.
    pub(super) fn last(&self) -> Option<Instant> {
        self.lock().last
    }

    /// The number of the contact of now.
    pub(super) fn number(&self) -> u64 {
        self.lock().number
    }

    /// This node has caught up with the leader: it asked how far in the contact of this number.
    pub(super) fn caught_up(&self, number: u64) {
        let mut contact = self.lock();
        contact.caught_up_in = number;
        self.publish(&contact);
    }

    /// Whether this node has caught up in the contact of now.
    pub(super) fn has_caught_up(&self) -> bool {
        let contact = self.lock();
        contact.number == contact.caught_up_in
    }

    /// Whether it has caught up, and the contact is not broken now. Takes no lock.
    pub(super) fn is_current(&self) -> bool {
        self.begun.elapsed().as_millis() < u128::from(self.current_until_ms.load(Ordering::Acquire))
    }

    fn publish(&self, contact: &Unbroken) {
        let last = contact.last.filter(|_| contact.caught_up_in == contact.number);
        let until = last.map(|last| (last + BROKEN_AFTER).saturating_duration_since(self.begun));
        let ms = until.map_or(0, |until| u64::try_from(until.as_millis()).unwrap_or(u64::MAX));
        self.current_until_ms.store(ms, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Unbroken> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn after_each_break_of_the_contact_the_node_must_catch_up() {
        let contact = Contact::new();
        assert!(!contact.is_current(), "nothing was heard");
        contact.touch();
        assert!(!contact.is_current(), "what is known is from before the start");
        contact.caught_up(contact.number());
        assert!(contact.is_current());
        for _ in 0..30 {
            advance(Duration::from_millis(900)).await;
            assert!(contact.is_current());
            contact.touch();
        }
        let before = contact.number();
        advance(BROKEN_AFTER).await;
        assert!(!contact.is_current(), "the leader is gone");
        contact.touch();
        assert!(!contact.is_current() && !contact.has_caught_up(), "what it said meanwhile was not heard");
        contact.caught_up(before);
        assert!(!contact.is_current(), "asked for before the break");
        contact.caught_up(contact.number());
        assert!(contact.is_current());
    }
}
