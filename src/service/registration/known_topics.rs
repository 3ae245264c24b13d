//! The topics of a broker that the table is known to have.

use crate::protocol::registration::Blocks;
use storage::command::Name;
use storage::{Position, RouteInfo};

/// The topics of one registration, as block digests, at a group version at which the table was found to have them all.
#[derive(Debug)]
pub(super) struct KnownTopics {
    pub(super) broker: Name,
    pub(super) id: i64,
    pub(super) acting_master: Option<bool>,
    /// The group version at which the table was found to have them.
    pub(super) version: Position,
    pub(super) blocks: Blocks,
}

impl KnownTopics {
    /// Whether parsing may skip any of them, with this table.
    pub(super) fn is_usable(&self, table: &RouteInfo) -> bool {
        !table.settings().delete_topic_with_broker_registration
            && table.topics_changed_since(&self.broker, self.version).is_some()
    }
}
