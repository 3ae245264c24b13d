//! How a read is to be answered. Our own header fields, which Java does not have.

use crate::wire::RemotingCommand;

/// The header fields `__READ_MODE` and `__MIN_REVISION` of a read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Which state to read; `None` leaves it to the node's setting.
    pub mode: Option<ReadMode>,
    /// Whether the response carries `__REVISION`.
    pub wants_revision: bool,
}

/// Which state a read sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadMode {
    /// The table of this node as it is.
    Local,
    /// The table of this node once it has at least that revision.
    MinRevision(u64),
    /// The table of this node after a read barrier: everything that was acknowledged before the read.
    Linearizable,
}

impl ReadOptions {
    /// Reads the fields of a command. An unreadable value counts as absent, but asks for the revision.
    #[must_use]
    pub fn of(command: &RemotingCommand) -> Self {
        let (mode, revision) = (command.field("__READ_MODE"), command.field("__MIN_REVISION"));
        let by_name = match mode {
            Some(mode) if mode.eq_ignore_ascii_case("linearizable") => Some(ReadMode::Linearizable),
            Some(mode) if mode.eq_ignore_ascii_case("local") => Some(ReadMode::Local),
            _ => None,
        };
        let by_revision = || revision.and_then(|text| text.parse().ok()).map(ReadMode::MinRevision);
        let mode_of =
            if by_name == Some(ReadMode::Linearizable) { by_name } else { by_revision().or(by_name) };
        Self { mode: mode_of, wants_revision: mode.is_some() || revision.is_some() }
    }
}
