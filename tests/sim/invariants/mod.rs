//! What must hold in every run, one to a file.

pub(crate) mod acknowledged;
pub(crate) mod dead_leave;
pub(crate) mod former_leader;
pub(crate) mod guard_keeps;
pub(crate) mod living_stay;
pub(crate) mod notices;
pub(crate) mod one_history;
pub(crate) mod progress;
pub(crate) mod registered_is_known;
pub(crate) mod routes;
