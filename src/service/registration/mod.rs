//! REGISTER_BROKER at the edge.
//!
//! ```text
//! checksum → digest known at the same group version? ──yes──▶ confirm by the leader ──▶ reply
//!                     │ no                                      ▲      │ not registered there
//!                     ▼                                         │      ▼
//!   parse what is new, compare with the table ──unchanged───────┘   propose whole ──▶ reply
//!                     │ differs                                        ▲
//!                     └──▶ propose the difference ──conflict twice─────┘
//! ```
//!
//! A broker registers in full with every node every 10 to 30 s, so the first line is the one that counts: it parses
//! no body and writes nothing. To ensure correctness:
//! - No registration succeeds while its broker is not in the table of this node (but for one that lost against a higher
//!   stateVersion).
//! - A registration that waited never takes back a later registration of its broker that was carried out meanwhile.
//! - Waiting for the leader's confirmation is concurrent with the connection's other requests; proposals keep their
//!   order.
//!
//! `pending` has these steps, `received` and `parsed` the work on the body, `digest_cache` and `known_topics` what a
//! node remembers of registrations that changed nothing.

mod conflict_log;
mod counters;
mod digest_cache;
mod implausible_addresses;
mod known_topics;
mod parsed;
mod pending;
mod received;
mod registrar;
mod topic_flapping;

pub use counters::RegistrationCounters;
pub(super) use pending::{Arrival, begin};
pub(super) use registrar::Registrar;
