//! The revision in a response.

use crate::protocol::{ReadOptions, Reply};

/// Adds the revision that the reply was made at, if the request asked for it.
pub(super) fn with_revision(reply: Reply, options: ReadOptions, revision: Option<u64>) -> Reply {
    if options.wants_revision {
        return reply.with("__REVISION", &revision.unwrap_or(0).to_string());
    }
    reply
}
