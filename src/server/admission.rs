//! The one place that lets a connection or a request in.

use super::{Counters, Limits};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what is let in against the limits.
#[derive(Debug, Clone)]
pub(super) struct Admission {
    limits: Arc<Limits>,
    counters: Arc<Counters>,
}

/// A connection's place. Given back when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    counters: Arc<Counters>,
    in_flight: Arc<AtomicUsize>,
}

/// A request whose answer is under way. Given back when dropped.
#[derive(Debug)]
pub(super) struct InFlight {
    counters: Arc<Counters>,
    of_connection: Arc<AtomicUsize>,
    bytes: u64,
}

impl Admission {
    pub(super) fn new(limits: Arc<Limits>, counters: Arc<Counters>) -> Self {
        Self { limits, counters }
    }

    /// A place for one more connection; only the listener asks, so nobody comes in between.
    pub(super) fn connection(&self) -> Option<Seat> {
        if self.counters.connections_now.get() >= self.limits.connections as u64 {
            self.counters.connections_refused.add_one();
            return None;
        }
        self.counters.connections_now.add_one();
        self.counters.connections.add_one();
        Some(Seat { counters: Arc::clone(&self.counters), in_flight: Arc::default() })
    }

    /// Lets a request of a connection in whose answer will come later. `None`: SYSTEM_BUSY. The limits over all
    /// connections may be passed by as many requests as there are threads.
    pub(super) fn request(&self, seat: &Seat, bytes: usize) -> Option<InFlight> {
        if seat.in_flight.load(Ordering::Relaxed) >= self.limits.in_flight_per_connection {
            self.counters.busy_connection.add_one();
            return None;
        }
        let bytes = bytes as u64;
        let full = self.counters.in_flight_now.get() >= self.limits.in_flight as u64
            || self.counters.in_flight_bytes_now.get() + bytes > self.limits.in_flight_bytes as u64;
        if full {
            self.counters.busy_server.add_one();
            return None;
        }
        seat.in_flight.fetch_add(1, Ordering::Relaxed);
        self.counters.in_flight_now.add_one();
        self.counters.in_flight_bytes_now.add(bytes);
        Some(InFlight {
            counters: Arc::clone(&self.counters),
            of_connection: Arc::clone(&seat.in_flight),
            bytes,
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.counters.connections_now.sub(1);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.of_connection.fetch_sub(1, Ordering::Relaxed);
        self.counters.in_flight_now.sub(1);
        self.counters.in_flight_bytes_now.sub(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(limits: Limits) -> Admission {
        Admission::new(Arc::new(limits), Arc::default())
    }

    #[test]
    fn a_place_is_given_back() {
        let admission = admission(Limits { connections: 1, ..Limits::default() });
        let seat = admission.connection();
        assert!(seat.is_some());
        assert!(admission.connection().is_none());
        drop(seat);
        assert!(admission.connection().is_some());
        assert_eq!(admission.counters.connections_refused.get(), 1);
    }

    #[test]
    fn one_connection_cannot_take_what_is_for_all() {
        let admission = admission(Limits { in_flight_per_connection: 2, in_flight: 3, ..Limits::default() });
        let (one, other) = (admission.connection().unwrap(), admission.connection().unwrap());
        let held = [admission.request(&one, 0), admission.request(&one, 0)];
        assert!(held.iter().all(Option::is_some));
        assert!(admission.request(&one, 0).is_none());
        assert_eq!(admission.counters.busy_connection.get(), 1);
        let third = admission.request(&other, 0);
        assert!(third.is_some());
        assert!(admission.request(&other, 0).is_none());
        assert_eq!(admission.counters.busy_server.get(), 1);
        drop((held, third));
        assert!(admission.request(&one, 0).is_some());
    }

    #[test]
    fn bodies_are_bounded_together() {
        let admission = admission(Limits { in_flight_bytes: 100, ..Limits::default() });
        let seat = admission.connection().unwrap();
        let held = admission.request(&seat, 60);
        assert!(held.is_some());
        assert!(admission.request(&seat, 60).is_none());
        drop(held);
        assert!(admission.request(&seat, 60).is_some());
    }
}
