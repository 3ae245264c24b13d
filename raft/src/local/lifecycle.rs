//! The node from its start to its end: its tasks, and why it stops.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The node from its start to its end.
#[derive(Default)]
pub(crate) struct Lifecycle {
    /// All tasks of the node.
    pub(crate) tasks: TaskTracker,
    /// Ends the tasks; the last step of a stop but for closing the log.
    pub(crate) stop: CancellationToken,
    /// A stop has begun: the node takes no new commands.
    stopping: AtomicBool,
    /// Why the process must exit.
    fatal: watch::Sender<Option<String>>,
}

impl Lifecycle {
    /// Begins to stop. Gives whether this call is the first.
    pub(crate) fn begin_stop(&self) -> bool {
        !self.stopping.swap(true, Ordering::AcqRel)
    }

    /// Whether a stop has begun.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// The process must exit. The first reason counts.
    pub(crate) fn fail(&self, why: String) {
        tracing::error!("{why}");
        self.fatal.send_if_modified(|fatal| {
            let first = fatal.is_none();
            if first {
                *fatal = Some(why);
            }
            first
        });
    }

    /// Resolves when the process must exit; gives the reason.
    pub(crate) async fn failed(&self) -> String {
        let mut fatal = self.fatal.subscribe();
        match fatal.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => "the node is gone".into(),
        }
    }
}
