//! What happened on the RocketMQ port, for metrics.

use crate::counter::Counter;

/// Counters of a server. All but those that say "now" only grow.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections now.
    pub connections_now: Counter,
    /// Connections accepted.
    pub connections: Counter,
    /// Connections closed at once: `Limits::connections`.
    pub connections_refused: Counter,
    /// Connections that the peer ended.
    pub closed_by_peer: Counter,
    /// Connections closed since no byte moved: `Limits::idle`.
    pub closed_idle: Counter,
    /// Connections closed for bytes that are no frame, or a frame over its limit.
    pub closed_broken_frame: Counter,
    /// Connections that began with a TLS handshake.
    pub closed_tls: Counter,
    /// Connections closed since the peer did not read its responses: `Limits::write_buffer_bytes`.
    pub closed_slow_reader: Counter,
    /// Connections closed since a frame took too long: `Limits::frame_time`.
    pub closed_slow_frame: Counter,
    /// Connections closed since their broker expired.
    pub closed_expired: Counter,
    /// Connections closed since this node was removed from its cluster.
    pub closed_removed: Counter,
    /// Requests received, by request code.
    pub requests: PerCode,
    /// Requests answered SYSTEM_BUSY: `Limits::in_flight_per_connection`.
    pub busy_connection: Counter,
    /// Requests answered SYSTEM_BUSY: `Limits::in_flight` or `Limits::in_flight_bytes`.
    pub busy_server: Counter,
    /// Requests in flight now.
    pub in_flight_now: Counter,
    /// Their bytes.
    pub in_flight_bytes_now: Counter,
    /// Bytes received.
    pub received_bytes: Counter,
    /// Bytes sent.
    pub sent_bytes: Counter,
}

/// Codes below this may have a counter of their own.
const CODES: usize = 1000;

/// One counter per request code that a nameserver knows, and one for all others.
#[derive(Debug)]
pub struct PerCode {
    known: Box<[(i32, Counter)]>,
    slots: Box<[u8; CODES]>,
    others: Counter,
}

/// Slot of a code without a counter of its own.
const NO_SLOT: u8 = u8::MAX;

impl Default for PerCode {
    fn default() -> Self {
        let mut slots = Box::new([NO_SLOT; CODES]);
        for (slot, code) in (0u8..).zip(crate::handlers::CODES) {
            if let Some(place) = usize::try_from(*code).ok().and_then(|code| slots.get_mut(code)) {
                *place = slot;
            }
        }
        let known = crate::handlers::CODES.iter().map(|code| (*code, Counter::default())).collect();
        Self { known, slots, others: Counter::default() }
    }
}

impl PerCode {
    /// Counts one request.
    pub fn add_one(&self, code: i32) {
        let slot = usize::try_from(code).ok().and_then(|code| self.slots.get(code));
        let counter = slot.and_then(|slot| self.known.get(usize::from(*slot)));
        counter.map_or(&self.others, |(_, counter)| counter).add_one();
    }

    /// Each known code with its count.
    pub fn iter(&self) -> impl Iterator<Item = (i32, u64)> + '_ {
        self.known.iter().map(|(code, counter)| (*code, counter.get()))
    }

    /// Requests with any other code.
    #[must_use]
    pub fn others(&self) -> u64 {
        self.others.get()
    }
}
