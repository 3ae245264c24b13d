//! A log whose unfinished end was cut off at the start: the operator hears of it until this node has caught up with
//! the leader, the other nodes as long as it is in the marker.

use crate::consensus::runtime::blocking;
use crate::leader::core::Core;
use crate::local::node::Context;
use crate::peer::handshake::Facts;
use std::sync::Arc;

const MATTER: &str = "cut";

/// Says so, when the log was cut now, or earlier and the node has not caught up since.
pub(crate) fn tell(context: &Context) {
    let Some(cut) = context.directory.truncated_tail() else { return };
    let last = cut.last.map_or_else(|| "the beginning".to_owned(), |last| format!("entry {last}"));
    context.notices.set(
        MATTER,
        format!(
            "the log ended in a write that was never finished: {} bytes after {last} were cut off (copy: {}); this \
             node catches up with the leader",
            cut.bytes, cut.copy
        ),
    );
}

/// Another node says that its log was cut.
pub(crate) fn hear(context: &Context, from: &Facts) {
    if from.log_was_cut {
        let id = from.node_id;
        let text = format!(
            "node {id} has cut off the unfinished end of its log at its start and is catching up; if it was killed \
             or lost power, nothing acknowledged is lost unless its disk lies about syncs"
        );
        context.notices.log(&format!("cut of node {id}"), text);
    }
}

/// The node has caught up: from here on the cut is no matter, neither here nor for the other nodes.
pub(crate) fn settle(core: &Core) {
    if core.context.directory.truncated_tail().is_none() {
        return;
    }
    let context = Arc::clone(&core.context);
    core.context.tasks.spawn(async move {
        let directory = Arc::clone(&context.directory);
        match blocking(move || directory.forget_truncated_tail()).await {
            Ok(()) => {
                tracing::info!("caught up after the end of the log was cut off");
                context.notices.clear(MATTER);
            }
            Err(e) => {
                tracing::warn!("the cut of the log stays noted, since the marker cannot be written: {e}")
            }
        }
    });
}
