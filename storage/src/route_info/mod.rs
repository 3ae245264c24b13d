//! The tables of a nameserver, and the only door to change them: [`RouteInfo::apply`].
//!
//! `apply` is total (no history makes it panic) and pure (no clock, no randomness, no I/O, no map whose order
//! shows), so the same log gives the same bytes on each node. All parts are persistent maps: a clone is cheap
//! and shares what did not change, so readers and snapshots hold a state while apply goes on with the next.
//!
//! Each kind of change has one pure function that says what it would do; apply carries that out, and
//! [`RouteInfo::check_registration`] and [`RouteInfo::prepare`] call the same function.
//!
//! - `plan`, `register`, `difference`, `conflicts`: registrations, whole or as the difference to the table;
//! - `topic_changes`: the topics that the last registrations changed, to compare only those again;
//! - `remove`: removals of brokers, one or hundreds at once;
//! - `topics`, `permissions`, `kv`, `eviction_guard`: the other changes;
//! - `growth`: what the leader refuses since a part of the tables would grow too large;
//! - `audit`: the history; `invariants`: what holds in every state;
//! - `hash`, `chunks`, `load`: a state's hash, and a state as bytes.

mod audit;
#[cfg(any(test, fuzzing))]
pub(crate) mod checks;
mod chunks;
mod conflicts;
mod difference;
mod eviction_guard;
mod growth;
mod hash;
mod invariants;
mod kv;
mod load;
mod permissions;
mod plan;
mod prepare;
mod register;
mod remove;
mod tables;
#[cfg(test)]
mod tests;
mod topic_changes;
mod topics;

pub use audit::AUDIT_RECORDS_MAX;
pub use chunks::{CHUNK_FORMAT, Chunks};
pub use hash::{HASH_FORMAT, StateHash};
pub use kv::ORDER_TOPIC_CONFIG;
pub use load::{LoadError, Loader};
pub use tables::{AuditRecord, BrokerData, BrokerKey, BrokerLiveInfo, RouteInfo, Topic};

use crate::command::{Change, Command, Registration};
use crate::outcome::{Event, Outcome};
use crate::{At, LogId};

/// What one log entry did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// One per command, in order.
    pub outcomes: Vec<Outcome>,
    /// What happened, in order.
    pub events: Vec<Event>,
}

/// What a whole registration would do to the applied table: the edge checks it before it proposes anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistrationCheck {
    /// Nothing: it is a heartbeat.
    Unchanged,
    /// It would be answered with this outcome and change nothing (`Outdated`, `SingleTopic`).
    Refused(Outcome),
    /// It would change something: the difference to propose.
    Differs(Box<Registration>),
}

/// What the leader does with a command before it goes into an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prepared {
    /// Propose it, with what only the leader knows filled in (incarnations of removals that a request asks for).
    Propose(Box<Command>),
    /// It would change nothing: this is its outcome at the leader's revision.
    Done(Outcome),
}

impl RouteInfo {
    /// Applies one command. The only way to change the tables.
    pub fn apply(&mut self, at: At, command: &Command, events: &mut Vec<Event>) -> Outcome {
        let before = events.len();
        let position = at.position();
        let outcome = match &command.change {
            Change::RegisterBroker(registration) => self.register(position, registration, events),
            Change::RemoveBrokers(removals) => self.remove_brokers(at, removals, events),
            Change::RegisterTopic(topic) => self.register_topic(position, topic, events),
            Change::DeleteTopic(topic) => self.delete_topic(position, topic, events),
            Change::SetWritePermission(permission) => self.set_write_permission(position, permission, events),
            Change::PutKv(put) => self.put_kv(position, put, events),
            Change::DeleteKv(delete) => self.delete_kv(position, delete, events),
            Change::UpdateSettings(update) => self.update_settings(position, update, events),
            Change::SetEvictionGuard(guard) => self.set_eviction_guard(position, guard, events),
        };
        if !outcome.is_refusal() {
            self.record(position, &command.origin, events.get(before..).unwrap_or_default());
        }
        outcome
    }

    /// Applies one log entry: its commands become visible together, and the revision moves to its id.
    /// Entries without commands (blank, membership) move the revision too.
    pub fn apply_entry(&mut self, id: LogId, commands: &[Command]) -> Applied {
        let mut applied = Applied::default();
        for (number, command) in (0u32..).zip(commands) {
            let at = At { term: id.term, index: id.index, number };
            let outcome = self.apply(at, command, &mut applied.events);
            applied.outcomes.push(outcome);
        }
        self.revision = Some(id);
        applied
    }
}
