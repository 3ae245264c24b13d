//! The history: a bounded ring of what happened, for `why`.
//!
//! To ensure correctness, the ring is a function of the records alone: the newest ones that keep both limits, each with its
//! names shortened. So nodes have the same ring at the same revision, also when one of them has loaded a snapshot that
//! an earlier version wrote without these limits.

use super::{AuditRecord, RouteInfo};
use crate::Position;
use crate::command::{Name, Origin};
use crate::limits::{HISTORY_BYTES_MAX, HISTORY_NAME_BYTES_MAX};
use crate::outcome::Event;

/// Records that the ring holds; the oldest goes first.
pub const AUDIT_RECORDS_MAX: usize = 10_000;

/// Topic records that one command may add, so that one broker's first registration does not wash the history
/// of all others away.
const TOPIC_RECORDS_PER_COMMAND_MAX: usize = 500;

/// What a record counts beside its names, and a name beside its text, bytes: about what they take in memory.
const RECORD_BYTES: usize = 256;
const NAME_BYTES: usize = 16;

/// Stands at the end of a name that was shortened.
const SHORTENED: &str = "…";

impl RouteInfo {
    /// Records what one command did.
    pub(super) fn record(&mut self, at: Position, origin: &Origin, events: &[Event]) {
        let mut topics = 0;
        // An address that takes another id or name leaves its old place and has a new one.
        let left = |at: &Name| {
            events.iter().any(|event| matches!(event, Event::BrokerRemoved { address, .. } if address == at))
        };
        for event in events {
            match event {
                // A broker that only registers a new topic table: its topics have records of their own.
                Event::BrokerRegistered { first: false, address, .. } if !left(address) => continue,
                Event::MinBrokerIdChanged { .. } => continue,
                Event::TopicNew { .. } | Event::TopicChanged { .. } | Event::TopicGone { .. } => {
                    topics += 1;
                    if topics > TOPIC_RECORDS_PER_COMMAND_MAX {
                        continue;
                    }
                }
                _ => {}
            }
            let record = AuditRecord { at, origin: origin.clone(), event: event.clone() };
            self.push_shortened(record);
        }
        self.drop_oldest_records();
    }

    /// Adds a record of a snapshot, as it was written: the hash of the snapshot is that of all its records.
    pub(super) fn load_record(&mut self, mut record: AuditRecord) {
        self.audit_bytes += record_bytes(&mut record);
        self.audit.push_back(record);
    }

    /// Brings records that were loaded within the limits.
    pub(super) fn bound_loaded_history(&mut self) {
        self.audit_bytes = 0;
        for record in std::mem::take(&mut self.audit) {
            self.push_shortened(record);
        }
        self.drop_oldest_records();
    }

    /// Bytes of the history, as [`HISTORY_BYTES_MAX`] limits them.
    #[must_use]
    pub fn history_bytes(&self) -> usize {
        self.audit_bytes
    }

    /// The bytes of the history counted anew.
    pub(super) fn count_history_bytes(&self) -> usize {
        self.audit.iter().cloned().map(|mut record| record_bytes(&mut record)).sum()
    }

    fn push_shortened(&mut self, mut record: AuditRecord) {
        for_each_name(&mut record, shorten);
        self.load_record(record);
    }

    fn drop_oldest_records(&mut self) {
        while self.audit.len() > AUDIT_RECORDS_MAX || self.audit_bytes > HISTORY_BYTES_MAX {
            let Some(mut oldest) = self.audit.pop_front() else { return };
            self.audit_bytes -= record_bytes(&mut oldest);
        }
    }
}

fn for_each_name(record: &mut AuditRecord, mut visit: impl FnMut(&mut Name)) {
    visit(&mut record.origin.peer);
    record.event.for_each_name(&mut visit);
}

/// Only looks at the record.
fn record_bytes(record: &mut AuditRecord) -> usize {
    let mut bytes = RECORD_BYTES;
    for_each_name(record, |name| bytes += NAME_BYTES + name.len());
    bytes
}

fn shorten(name: &mut Name) {
    if name.len() <= HISTORY_NAME_BYTES_MAX {
        return;
    }
    let end = name.floor_char_boundary(HISTORY_NAME_BYTES_MAX - SHORTENED.len());
    *name = [name.get(..end).unwrap_or_default(), SHORTENED].concat().into();
}
