//! REGISTER_BROKER in stages: checksum, fingerprint, and only then the body.

use super::{Reply, remarks};
use crate::wire::RemotingCommand;
use storage::command::{DataVersion, Name, QueueConfig, Registration};

/// Largest body once inflated, bytes.
pub const INFLATED_MAX_BYTES: usize = 256 << 20;
/// Most topics of one registration.
pub const TOPICS_MAX: usize = 200_000;

/// Checks the body against the header's checksum.
///
/// # Errors
/// The answer that refuses it.
pub fn check_crc(_command: &RemotingCommand) -> Result<(), Reply> {
    Ok(())
}

/// A hash of everything that a registration reads: the body, the sender's version and the header fields, all but
/// opaque and checksum.
#[must_use]
pub fn registration_fingerprint(_command: &RemotingCommand) -> u128 {
    0
}

/// Reads a registration whole. The checksum is not looked at again.
///
/// # Errors
/// The answer that says what is missing or unreadable.
pub fn parse_registration(_command: &RemotingCommand) -> Result<Registration, Reply> {
    Err(Reply::error(remarks::REGISTER_BROKER_FAILED))
}

/// Reads a data version body; `None` without a body.
///
/// # Errors
/// The answer that says that it is none.
pub(super) fn parse_data_version(_body: &[u8]) -> Result<Option<DataVersion>, Reply> {
    Ok(None)
}

/// Reads the queues of a REGISTER_TOPIC body.
///
/// # Errors
/// The answer that says that it is none.
pub(super) fn parse_queues(_body: &[u8]) -> Result<Vec<(Name, QueueConfig)>, Reply> {
    Ok(Vec::new())
}
