//! The one place that admits a connection or a request.

use super::{Counters, Limits};
use crate::budget::SMALL_BYTES;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts connections and requests against the limits.
#[derive(Debug, Clone)]
pub(super) struct Admission {
    limits: Arc<Limits>,
    counters: Arc<Counters>,
}

/// The permit of a connection, returned when it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    counters: Arc<Counters>,
    in_flight: Arc<AtomicUsize>,
}

/// The permit of a request in flight, returned when it is dropped.
#[derive(Debug)]
pub(super) struct RequestPermit {
    counters: Arc<Counters>,
    connection_in_flight: Arc<AtomicUsize>,
    bytes: u64,
}

impl Admission {
    pub(super) fn new(limits: Arc<Limits>, counters: Arc<Counters>) -> Self {
        Self { limits, counters }
    }

    /// Admits one more connection. Only the listener calls this, so the check and the count need no lock.
    pub(super) fn connection(&self) -> Option<ConnectionPermit> {
        if self.counters.connections_now.get() >= self.limits.connections as u64 {
            self.counters.connections_refused.add_one();
            return None;
        }
        self.counters.connections_now.add_one();
        self.counters.connections.add_one();
        Some(ConnectionPermit { counters: Arc::clone(&self.counters), in_flight: Arc::default() })
    }

    /// Admits a request of `bytes` whose response comes later. `None`: SYSTEM_BUSY. Threads that admit at the same
    /// moment may exceed the limits over all connections by one request each.
    pub(super) fn request(&self, connection: &ConnectionPermit, bytes: usize) -> Option<RequestPermit> {
        if connection.in_flight.load(Ordering::Relaxed) >= self.limits.in_flight_per_connection {
            self.counters.busy_connection.add_one();
            return None;
        }
        let bytes_max = self.limits.in_flight_bytes as u64;
        let bytes_max = if bytes > SMALL_BYTES { bytes_max - bytes_max / 8 } else { bytes_max };
        let bytes = bytes as u64;
        let full = self.counters.in_flight_now.get() >= self.limits.in_flight as u64
            || self.counters.in_flight_bytes_now.get() + bytes > bytes_max;
        if full {
            self.counters.busy_server.add_one();
            return None;
        }
        connection.in_flight.fetch_add(1, Ordering::Relaxed);
        self.counters.in_flight_now.add_one();
        self.counters.in_flight_bytes_now.add(bytes);
        Some(RequestPermit {
            counters: Arc::clone(&self.counters),
            connection_in_flight: Arc::clone(&connection.in_flight),
            bytes,
        })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.counters.connections_now.sub(1);
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.connection_in_flight.fetch_sub(1, Ordering::Relaxed);
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
    fn a_connection_permit_is_returned() {
        let admission = admission(Limits { connections: 1, ..Limits::default() });
        let permit = admission.connection();
        assert!(permit.is_some());
        assert!(admission.connection().is_none());
        drop(permit);
        assert!(admission.connection().is_some());
        assert_eq!(admission.counters.connections_refused.get(), 1);
    }

    #[test]
    fn one_connection_cannot_take_all_permits() {
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
        let connection = admission.connection().unwrap();
        let held = admission.request(&connection, 60);
        assert!(held.is_some());
        assert!(admission.request(&connection, 60).is_none());
        drop(held);
        assert!(admission.request(&connection, 60).is_some());
    }

    #[test]
    fn large_bodies_leave_room_for_small_ones() {
        let admission = admission(Limits { in_flight_bytes: 8 * SMALL_BYTES, ..Limits::default() });
        let connection = admission.connection().unwrap();
        let held = admission.request(&connection, 6 * SMALL_BYTES);
        assert!(held.is_some());
        assert!(admission.request(&connection, 2 * SMALL_BYTES).is_none());
        assert!(admission.request(&connection, SMALL_BYTES).is_some());
    }
}
