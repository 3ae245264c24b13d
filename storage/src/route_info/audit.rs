//! The history: a bounded ring of what happened, for `why`.

use super::{AuditRecord, RouteInfo};
use crate::Position;
use crate::command::{Name, Origin};
use crate::outcome::Event;

/// Records that the ring holds; the oldest goes first.
pub const AUDIT_RECORDS_MAX: usize = 10_000;

/// Topic records that one command may add, so that one broker's first registration does not wash the history
/// of all others away.
const TOPIC_RECORDS_PER_COMMAND_MAX: usize = 500;

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
            self.audit.push_back(AuditRecord { at, origin: origin.clone(), event: event.clone() });
        }
        while self.audit.len() > AUDIT_RECORDS_MAX {
            self.audit.pop_front();
        }
    }
}
