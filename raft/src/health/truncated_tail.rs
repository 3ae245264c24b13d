//! A log whose unfinished tail was truncated at the start of this node: an alert until the node has caught up with the
//! leader. The other nodes learn of it in handshakes.

use crate::local::{LocalNode, blocking};
use std::sync::Arc;

/// Alert key.
const ALERT: &str = "truncated tail";

/// Raises the alert, when the tail was truncated now, or earlier and the node has not caught up since.
pub(crate) fn report(local: &LocalNode) {
    let Some(tail) = local.directory.truncated_tail() else { return };
    let last = tail.last.map_or_else(|| "the beginning".to_owned(), |last| format!("entry {last}"));
    local.alerts.set(
        ALERT,
        format!(
            "the log ended in a write that was never finished: {} bytes after {last} were cut off (copy: {}); this \
             node catches up with the leader",
            tail.bytes, tail.copy
        ),
    );
}

/// The node has caught up: ends the alert, here and for the other nodes.
pub(crate) fn forget(local: &Arc<LocalNode>) {
    if local.directory.truncated_tail().is_none() {
        return;
    }
    let node = Arc::clone(local);
    local.lifecycle.tasks.spawn(async move {
        let directory = Arc::clone(&node.directory);
        match blocking(move || directory.forget_truncated_tail()).await {
            Ok(()) => tracing::info!("caught up after the tail of the log was truncated"),
            Err(e) => tracing::warn!(
                "caught up after the tail of the log was truncated; the next start will report it again, since the marker \
                 file cannot be written: {e}"
            ),
        }
        node.alerts.clear(ALERT);
    });
}
