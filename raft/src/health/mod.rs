//! What an operator learns of this node, and what it does about a disk in trouble.
//!
//! - [`status`]: the report of this node.
//! - [`disk_watch`]: a disk that hangs or fills up.
//! - [`member_watch`]: members that the leader does not reach.
//! - [`state_check`]: equal logs must give equal tables.
//! - [`truncated_tail`]: an unfinished write at the end of the log.

pub(crate) mod disk_watch;
pub(crate) mod member_watch;
pub(crate) mod state_check;
pub(crate) mod status;
pub(crate) mod truncated_tail;
