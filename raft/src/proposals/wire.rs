//! Proposal outcomes ⇄ replies on the wire.

use super::outcome::ProposalOutcome;
use crate::api::NodeId;
use crate::peer::connection::CallError;
use crate::peer::message::Reply;

/// The reply for an outcome; `done` makes the reply of what was carried out.
pub(crate) fn reply<T>(outcome: ProposalOutcome<T>, done: impl FnOnce(T) -> Reply) -> Reply {
    match outcome {
        ProposalOutcome::Done(value) => done(value),
        ProposalOutcome::Refused(reason) => Reply::Refused(reason),
        ProposalOutcome::NotLeader(_) => Reply::NotLeader,
        ProposalOutcome::Unknown(reason) => Reply::Unknown(reason),
    }
}

/// The outcome of a call to the leader; `done` reads the reply of what was carried out, and gives any other back.
pub(crate) fn outcome<T>(
    leader: NodeId,
    result: Result<Reply, CallError>,
    done: impl FnOnce(Reply) -> Result<T, Reply>,
) -> ProposalOutcome<T> {
    let not_reached =
        |reason| ProposalOutcome::NotLeader(format!("the leader, node {leader}, is not reached: {reason}"));
    match result {
        Ok(Reply::Refused(reason)) => ProposalOutcome::Refused(reason),
        Ok(Reply::Unknown(reason)) => ProposalOutcome::Unknown(reason),
        Ok(Reply::NotLeader) => ProposalOutcome::NotLeader(format!("node {leader} does not lead")),
        // Nothing was sent, or nothing was done: it may be asked again, by then perhaps of another leader.
        Ok(Reply::Unavailable(reason)) | Err(CallError::NotSent(reason)) => not_reached(reason),
        Ok(reply) => match done(reply) {
            Ok(value) => ProposalOutcome::Done(value),
            Err(other) => ProposalOutcome::Unknown(format!("node {leader} replied {other:?}")),
        },
        Err(CallError::NoReply(reason)) => {
            ProposalOutcome::Unknown(format!("node {leader}, the leader, gave no answer: {reason}"))
        }
    }
}
