//! A parsed registration: whole, or without the topics that the table is known to have.
//!
//! To ensure correctness, parsing skips topics only while the table has them as the broker sends them:
//! - the table was found to have them at a group version ([`KnownTopics`]), for the same id and acting-master flag;
//! - since then nothing of the broker name has changed but the queues of topics that are known by name
//!   ([`RouteInfo::topics_changed_since`]), and none of these was skipped;
//! - topics that a body lacks are not removed (`deleteTopicWithBrokerRegistration` is off).
//!
//! Then the parsed rest stands for the whole, as a difference against the table of now.

use super::known_topics::KnownTopics;
use crate::protocol::Reply;
use crate::protocol::registration::{
    PartialRegistration, RegistrationHeader, RegistrationLimits, parse_part,
};
use std::sync::Arc;
use storage::command::{Basis, Registration};
use storage::route_info::RegistrationCheck;
use storage::{Position, RouteInfo};

/// A registration that was parsed.
#[derive(Debug)]
pub(super) struct ParsedRegistration {
    part: PartialRegistration,
    known: Option<Arc<KnownTopics>>,
}

/// A registration compared with a table.
pub(super) struct Comparison {
    /// What apply would do.
    pub(super) check: RegistrationCheck,
    /// The group version of that table.
    pub(super) version: Position,
    /// The topics to skip next time, if the registration changes nothing.
    pub(super) known_topics: Option<KnownTopics>,
}

impl ParsedRegistration {
    /// Parses a registration, but skips known topics.
    pub(super) fn new(
        header: &RegistrationHeader,
        body: &[u8],
        known: Option<Arc<KnownTopics>>,
        limits: RegistrationLimits,
    ) -> Result<Self, Reply> {
        let part = parse_part(header, body, known.as_ref().map(|known| &known.blocks), limits)?;
        Ok(Self { part, known })
    }

    /// The registration, without the skipped topics.
    pub(super) fn registration(&self) -> &Registration {
        &self.part.registration
    }

    pub(super) fn is_whole(&self) -> bool {
        self.part.is_whole()
    }

    /// Compares the registration with a table. `None` when it must be parsed whole first, since a skipped topic may
    /// have changed.
    pub(super) fn compare(&self, table: &RouteInfo) -> Option<Comparison> {
        let version = table.group_version(&self.part.registration.broker);
        let check = if self.is_whole() {
            table.check_registration(&self.part.registration)
        } else {
            table.check_registration(&self.as_difference(table, version)?)
        };
        let unchanged = check == RegistrationCheck::Unchanged;
        let known_topics = unchanged.then(|| self.known_topics_at(table, version)).flatten();
        Some(Comparison { check, version, known_topics })
    }

    /// The parsed topics as a difference against a table.
    fn as_difference(&self, table: &RouteInfo, version: Position) -> Option<Registration> {
        let (known, parsed) = (self.known.as_ref()?, &self.part.registration);
        if (&known.broker, known.id, known.acting_master) != (&parsed.broker, parsed.id, parsed.acting_master)
            || table.settings().delete_topic_with_broker_registration
            || self.part.may_have_skipped(&table.topics_changed_since(&known.broker, known.version)?)
        {
            return None;
        }
        let topic_count = u32::try_from(self.part.topic_count()).ok()?;
        let basis = Basis::Difference { group_version: version, topic_count, absent: Vec::new() };
        Some(Registration { basis, ..parsed.clone() })
    }

    /// The topics to skip next time, if the table has all parsed topics. The caller knows that the table has the
    /// skipped topics at this version.
    pub(super) fn known_topics_at(&self, table: &RouteInfo, version: Position) -> Option<KnownTopics> {
        let parsed = &self.part.registration;
        if table.group_version(&parsed.broker) != version || !table.holds_topics(parsed) {
            return None;
        }
        Some(KnownTopics {
            broker: parsed.broker.clone(),
            id: parsed.id,
            acting_master: parsed.acting_master,
            version,
            blocks: self.part.blocks.clone()?,
        })
    }
}

#[cfg(test)]
mod tests;
