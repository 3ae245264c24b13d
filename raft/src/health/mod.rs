//! What an operator is told.

pub(crate) mod disk_watch;
pub(crate) mod state_check;
pub(crate) mod status;
pub(crate) mod truncated_tail;
