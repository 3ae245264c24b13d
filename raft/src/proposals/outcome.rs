//! What comes of a request that only the leader can carry out.

use crate::api::ProposeError;

/// What comes of a request that only the leader can carry out: a command, a change of the membership, a leadership
/// transfer, a read barrier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProposalOutcome<T> {
    /// Carried out.
    Done(T),
    /// Not carried out, and will not be. With the reason.
    Refused(String),
    /// Not carried out: the node that was asked does not lead, or was not reached. With the reason. Ask again.
    NotLeader(String),
    /// It may have been, or may yet be, carried out. With the reason.
    Unknown(String),
}

impl<T> ProposalOutcome<T> {
    /// The result for a caller of the façade, for which no leader is the same as a refusal.
    pub(crate) fn into_result(self) -> Result<T, ProposeError> {
        match self {
            Self::Done(value) => Ok(value),
            Self::Refused(reason) | Self::NotLeader(reason) => Err(ProposeError::Refused(reason)),
            Self::Unknown(reason) => Err(ProposeError::Unknown(reason)),
        }
    }
}
