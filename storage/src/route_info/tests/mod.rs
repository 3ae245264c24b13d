//! Tests of the state machine.

mod chunks;
mod difference;
mod faults;
pub(super) mod golden;
mod growth;
mod history;
mod hostile;
mod java;
mod properties;
mod topic_changes;
mod world;
