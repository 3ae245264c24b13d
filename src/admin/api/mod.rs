//! The bodies of the JSON API. Field names are part of the interface; new ones may come.

mod brokers;
mod members;
mod readiness;
mod status;

pub use brokers::{BrokerView, brokers};
pub use members::{MemberChangeRequest, MemberView};
pub use readiness::Readiness;
pub use status::{CountsView, StatusView};

/// A time in seconds with tenths, for people.
pub(crate) fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}
