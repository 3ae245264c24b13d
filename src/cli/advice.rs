//! What an operator can do about a failure: one line below its message.

/// For an address that does not answer.
pub(crate) const IS_IT_RUNNING: &str = "is it running? --addr or NAMESRV_ADDR names the nameservers";
/// For a cluster without a leader.
pub(crate) const NO_LEADER: &str =
    "does a majority run? See docs/runbooks/lost-quorum.md, and `raft-namesrv status` for each node";

/// For the text of a refusal.
pub(crate) fn about(answer: &str) -> Option<&'static str> {
    answer.contains("no leader").then_some(NO_LEADER)
}
