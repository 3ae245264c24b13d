//! What the node publishes of each entry that it applies.

use storage::LogId;
use storage::outcome::Event;

/// An entry that this node applied, or a snapshot that it installed. Liveness, logs, notices to brokers and metrics
/// follow these.
#[derive(Debug, Clone)]
pub struct AppliedEntry {
    /// Log id of the entry; of a snapshot, of the last entry in it.
    pub id: LogId,
    /// What the entry changed, in order. Empty for a snapshot.
    pub events: Vec<Event>,
    /// The entry was committed before this process started, or came as a snapshot: send no notices for it.
    pub replay: bool,
    /// The tables are those of a snapshot, and nothing tells what happened until then: look at the whole tables.
    pub replaced: bool,
}
