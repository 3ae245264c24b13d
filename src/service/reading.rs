//! A registration as it was read: whole, or without the topics whose bytes were known.
//!
//! To ensure correctness, topics are passed over only while the table is known to have them as the broker tells them:
//! - they were found to be so at a group version ([`Told`]), for the same id and acting-master flag;
//! - since then nothing of the broker name has changed but the queues of topics that are known by name
//!   ([`RouteInfo::topics_changed_since`]), and none of these was passed over;
//! - topics that a body lacks are not removed (`deleteTopicWithBrokerRegistration` is off).
//!
//! Then what is left stands for the whole, as a difference against the table of now.

use crate::protocol::Reply;
use crate::protocol::registration::{Blocks, Part, RegistrationLimits, parse_part};
use crate::wire::RemotingCommand;
use std::sync::Arc;
use storage::command::{Basis, Name, Registration};
use storage::route_info::RegistrationCheck;
use storage::{Position, RouteInfo};

/// A topic table that the table of this node was found to have.
#[derive(Debug)]
pub(crate) struct Told {
    broker: Name,
    id: i64,
    acting_master: Option<bool>,
    /// The group version at which it was found.
    pub(super) version: Position,
    blocks: Blocks,
}

impl Told {
    /// Whether anything may be passed over, with this table.
    pub(super) fn is_of_use(&self, table: &RouteInfo) -> bool {
        !table.settings().delete_topic_with_broker_registration
            && table.topics_changed_since(&self.broker, self.version).is_some()
    }
}

/// A registration that was read.
#[derive(Debug)]
pub(super) struct Reading {
    part: Part,
    told: Option<Arc<Told>>,
}

/// What a registration would do to a table.
pub(super) struct Look {
    pub(super) check: RegistrationCheck,
    /// The group version of that table.
    pub(super) version: Position,
    /// What can be passed over next time, if it changes nothing.
    pub(super) told: Option<Told>,
}

impl Reading {
    /// Reads a registration, but for what of it is known.
    pub(super) fn new(
        command: &RemotingCommand,
        told: Option<Arc<Told>>,
        limits: RegistrationLimits,
    ) -> Result<Self, Reply> {
        let part = parse_part(command, told.as_ref().map(|told| &told.blocks), limits)?;
        Ok(Self { part, told })
    }

    /// Without the topics that were passed over, if there are any.
    pub(super) fn registration(&self) -> &Registration {
        &self.part.registration
    }

    pub(super) fn is_whole(&self) -> bool {
        self.part.is_whole()
    }

    /// Compares it with a table. `None` when it must be read whole first: what was passed over may have changed.
    pub(super) fn look(&self, table: &RouteInfo) -> Option<Look> {
        let version = table.group_version(&self.part.registration.broker);
        let check = if self.is_whole() {
            table.check_registration(&self.part.registration)
        } else {
            table.check_registration(&self.rest(table, version)?)
        };
        let told = (check == RegistrationCheck::Unchanged).then(|| self.told_at(table, version)).flatten();
        Some(Look { check, version, told })
    }

    /// What was read, as a difference against a table.
    fn rest(&self, table: &RouteInfo, version: Position) -> Option<Registration> {
        let (told, read) = (self.told.as_ref()?, &self.part.registration);
        if (&told.broker, told.id, told.acting_master) != (&read.broker, read.id, read.acting_master)
            || table.settings().delete_topic_with_broker_registration
            || self.part.may_have_passed(&table.topics_changed_since(&told.broker, told.version)?)
        {
            return None;
        }
        let topic_count = u32::try_from(self.part.topic_count()).ok()?;
        let basis = Basis::Difference { group_version: version, topic_count, absent: Vec::new() };
        Some(Registration { basis, ..read.clone() })
    }

    /// What can be passed over next time, if the table has all that was read. What was passed over must be known to be so
    /// at this version.
    pub(super) fn told_at(&self, table: &RouteInfo, version: Position) -> Option<Told> {
        let read = &self.part.registration;
        if table.group_version(&read.broker) != version || !table.holds_topics(read) {
            return None;
        }
        Some(Told {
            broker: read.broker.clone(),
            id: read.id,
            acting_master: read.acting_master,
            version,
            blocks: self.part.blocks.clone()?,
        })
    }
}

#[cfg(test)]
mod tests;
