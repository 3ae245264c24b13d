//! Replies to the outcome of a command and to errors of consensus: the one place that knows both sides.

use crate::protocol::{Reply, remarks};
use raft::{ProposeError, ReadError};
use storage::Outcome;

/// The shape of the reply to a command that was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyShape {
    /// Success without values.
    Plain,
    /// Success with the number of topics in this field.
    TopicCount(&'static str),
    /// The reply to a registration; success without values when it lost.
    Registration,
}

/// The reply to an outcome. An accepted registration gets [`registered`](super::broker::registered) instead.
#[must_use]
pub fn of_outcome(outcome: &Outcome, shape: ReplyShape) -> Reply {
    match (outcome, shape) {
        (Outcome::Topics { count }, ReplyShape::TopicCount(field)) => {
            Reply::success().with(field, &count.to_string())
        }
        (Outcome::Done { .. }, ReplyShape::TopicCount(field)) => Reply::success().with(field, "0"),
        (Outcome::SingleTopic, _) => Reply::error(remarks::REGISTER_BROKER_FAILED).with_ext(),
        (Outcome::UnknownBroker { broker }, _) => {
            Reply::error(format!("broker {broker} is not registered; the topic was not changed"))
        }
        (Outcome::Conflict { group_version }, _) => Reply::error(format!(
            "the broker name changed (at {group_version}) while its registration was under way; register again"
        )),
        (_, ReplyShape::Registration) => Reply::success().with_ext(),
        (
            Outcome::Done { .. } | Outcome::Removed { .. } | Outcome::Outdated | Outcome::Topics { .. },
            ReplyShape::Plain | ReplyShape::TopicCount(_),
        ) => Reply::success(),
    }
}

/// The reply to a command that was not carried out, or whose outcome is unknown.
#[must_use]
pub fn of_propose_error(error: &ProposeError) -> Reply {
    Reply::error(error.to_string())
}

/// The reply to a read that cannot be done in the requested mode.
#[must_use]
pub fn of_read_error(error: &ReadError) -> Reply {
    Reply::error(error.to_string())
}

/// The reply to a look-up of what a node lacks that may lack something.
#[must_use]
pub fn not_in_this_table() -> Reply {
    Reply::error(remarks::NOT_IN_THIS_TABLE)
}

/// The reply of a node that is not ready.
#[must_use]
pub fn not_ready() -> Reply {
    Reply::error(remarks::NOT_READY)
}
