//! What a command came to, as a reply: the one place that knows both.

use crate::protocol::{Reply, remarks};
use raft::{ProposeError, ReadError};
use storage::Outcome;

/// How an outcome is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Success without values.
    Plain,
    /// Success with the number of topics in this field.
    Topics(&'static str),
    /// A registration's; success without values when it lost.
    Registration,
}

/// The reply to an outcome. A registration that was taken is answered with values from the tables instead.
#[must_use]
pub fn of_outcome(outcome: &Outcome, after: After) -> Reply {
    match (outcome, after) {
        (Outcome::Topics { count }, After::Topics(field)) => Reply::success().with(field, &count.to_string()),
        (Outcome::Done { .. }, After::Topics(field)) => Reply::success().with(field, "0"),
        (Outcome::SingleTopic, _) => Reply::error(remarks::REGISTER_BROKER_FAILED).with_ext(),
        (Outcome::UnknownBroker { broker }, _) => {
            Reply::error(format!("broker {broker} is not registered; the topic was not changed"))
        }
        (Outcome::Conflict { group_version }, _) => Reply::error(format!(
            "the broker name changed (at {group_version}) while its registration was under way; register again"
        )),
        (_, After::Registration) => Reply::success().with_ext(),
        (
            Outcome::Done { .. } | Outcome::Removed { .. } | Outcome::Outdated | Outcome::Topics { .. },
            After::Plain | After::Topics(_),
        ) => Reply::success(),
    }
}

/// The reply to a command that was not carried out, or of which nobody knows.
#[must_use]
pub fn of_propose_error(error: &ProposeError) -> Reply {
    Reply::error(error.to_string())
}

/// The reply to a read that cannot be answered as asked.
#[must_use]
pub fn of_read_error(error: &ReadError) -> Reply {
    Reply::error(error.to_string())
}

/// The reply of a node that may not answer from its tables.
#[must_use]
pub fn not_ready() -> Reply {
    Reply::error(remarks::NOT_READY)
}
