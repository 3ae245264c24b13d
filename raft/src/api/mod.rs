//! The types of the façade: what [`crate::Node`] takes and gives.

mod applied;
mod directory;
mod member;
mod messages;
mod open_error;
mod options;
mod proposal;
mod status;

pub use applied::AppliedEntry;
pub use directory::Directory;
pub use member::{Member, MemberChange, NodeId};
pub use messages::{MessageError, PeerMessages};
pub use open_error::OpenError;
pub use options::{Options, SnapshotPolicy, Timing};
pub use proposal::{ProposeError, Proposed, ReadError};
pub use status::{Lag, LeaderState, MemberStatus, Phase, Status, TickLateness};
