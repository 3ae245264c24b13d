//! What every other room knows of this node: its identity, the members, its alerts, its tasks. Knows no network and no
//! openraft.

mod alerts;
mod background;
mod blocking;
mod disk_state;
mod lifecycle;
mod members;
mod niceness;
mod node;

pub(crate) use alerts::Alerts;
pub use background::background;
pub(crate) use blocking::blocking;
pub(crate) use disk_state::DiskState;
pub(crate) use lifecycle::Lifecycle;
pub(crate) use members::{Contact, MemberSet, MemberView, Members};
pub use niceness::{niceness, set_niceness};
pub(crate) use node::LocalNode;
