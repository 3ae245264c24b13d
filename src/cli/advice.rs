//! What to do about a failure, said once below it.

/// Nobody answers at an address.
pub(crate) const IS_IT_RUNNING: &str = "is it running? --addr or NAMESRV_ADDR names the nameservers";
/// No node leads.
pub(crate) const NO_LEADER: &str =
    "does a majority run? See docs/runbooks/lost-quorum.md, and `raft-namesrv status` for each node";

/// For what a node answered.
pub(crate) fn about(answer: &str) -> Option<&'static str> {
    answer.contains("no leader").then_some(NO_LEADER)
}
