//! Which nodes belong to the cluster, and which of them leads.
//!
//! - [`bootstrap`]: how empty nodes form a cluster.
//! - [`changes`]: learners join, voters are promoted, members are removed.
//! - [`joint`]: a leader ends a joint configuration that it finds.
//! - [`transfer`]: the leader transfers its leadership to another voter.

pub(crate) mod bootstrap;
pub(crate) mod changes;
pub(crate) mod joint;
pub(crate) mod transfer;

use crate::local::LocalNode;
use crate::proposals::outcome::ProposalOutcome;
use std::future::Future;

/// Does `work` in a task of its own: what changes state runs to its end, whether or not its caller still waits. A caller
/// that leaves between two steps would leave the cluster between them.
async fn to_its_end<T: Send + 'static>(
    local: &LocalNode,
    work: impl Future<Output = ProposalOutcome<T>> + Send + 'static,
) -> ProposalOutcome<T> {
    let ended = local.lifecycle.tasks.spawn(work).await;
    ended.unwrap_or_else(|error| ProposalOutcome::Unknown(error.to_string()))
}
