//! The applied state and its publisher: the tables as of the last applied entry, and the events of each entry.

use super::types::StoredMembership;
use crate::api::{AppliedEntry, ReadError};
use arc_swap::ArcSwap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use storage::outcome::Event;
use storage::{LogId, RouteInfo};
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// Entries that a subscriber may lag behind; one that lags further must look at the tables instead.
const EVENTS_MAX: usize = 4096;

/// A consistent state: tables and the membership at the same entry.
#[derive(Clone, Default)]
pub(crate) struct AppliedState {
    /// The tables.
    pub(crate) table: Arc<RouteInfo>,
    /// The last membership at or before the tables' revision.
    pub(crate) membership: Arc<StoredMembership>,
}

/// Publishes the applied state. Only the state machine writes it.
pub(crate) struct AppliedStatePublisher {
    state: ArcSwap<AppliedState>,
    applied: watch::Sender<Option<LogId>>,
    events: broadcast::Sender<Arc<AppliedEntry>>,
    /// The node applies what was committed before this start.
    replaying: AtomicBool,
    /// An entry of commands has been applied: the first one of a cluster holds its initial commands, perhaps none.
    commands_applied: AtomicBool,
    /// A request for the tables at exactly one index.
    capture: Mutex<Option<Capture>>,
}

/// A request for the tables at exactly one index.
struct Capture {
    index: u64,
    /// Set once the node has applied that index.
    table: Option<Arc<RouteInfo>>,
}

impl Default for AppliedStatePublisher {
    fn default() -> Self {
        Self {
            state: ArcSwap::from_pointee(AppliedState::default()),
            applied: watch::Sender::new(None),
            events: broadcast::Sender::new(EVENTS_MAX),
            replaying: AtomicBool::new(true),
            commands_applied: AtomicBool::new(false),
            capture: Mutex::new(None),
        }
    }
}

impl AppliedStatePublisher {
    /// The state as of the last applied entry.
    pub(crate) fn state(&self) -> Arc<AppliedState> {
        self.state.load_full()
    }

    /// The tables as of the last applied entry.
    pub(crate) fn table(&self) -> Arc<RouteInfo> {
        Arc::clone(&self.state.load().table)
    }

    /// Last applied entry.
    pub(crate) fn applied(&self) -> Option<LogId> {
        *self.applied.borrow()
    }

    /// Last applied entry, as it moves.
    pub(crate) fn watch_applied(&self) -> watch::Receiver<Option<LogId>> {
        self.applied.subscribe()
    }

    /// Waits until this node has applied an index, or `stop`.
    pub(crate) async fn wait_for(
        &self,
        index: u64,
        deadline: Instant,
        stop: &CancellationToken,
    ) -> Result<(), ReadError> {
        let mut applied = self.watch_applied();
        let reached = applied.wait_for(|id| id.is_some_and(|id| id.index >= index));
        tokio::select! {
            biased;
            reached = timeout_at(deadline, reached) => match reached {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(_)) => Err(ReadError::Stopping),
                Err(_) => {
                    let applied = self.applied().map_or(0, |id| id.index);
                    Err(ReadError::Behind { wanted: index, applied })
                }
            },
            () = stop.cancelled() => Err(ReadError::Stopping),
        }
    }

    /// The events of entries, from now on.
    pub(crate) fn subscribe_events(&self) -> broadcast::Receiver<Arc<AppliedEntry>> {
        self.events.subscribe()
    }

    /// Whether the initial commands of the cluster have been applied.
    pub(crate) fn has_initial_commands(&self) -> bool {
        self.commands_applied.load(Ordering::Acquire)
    }

    /// Entries applied from now on are no replay.
    pub(crate) fn end_replay(&self) {
        self.replaying.store(false, Ordering::Release);
    }

    /// Publishes the state after an entry, then its events.
    pub(crate) fn publish_entry(
        &self,
        state: AppliedState,
        id: LogId,
        events: Vec<Event>,
        is_of_commands: bool,
    ) {
        let replay = self.replaying.load(Ordering::Acquire);
        self.publish(state, id, is_of_commands);
        // An error means that there is no subscriber.
        let _ = self.events.send(Arc::new(AppliedEntry { id, events, replay, replaced: false }));
    }

    /// Publishes the state of a snapshot, then the event that the tables were replaced.
    pub(crate) fn publish_snapshot(&self, state: AppliedState, id: LogId) {
        // No snapshot is made before an entry of commands.
        self.publish(state, id, true);
        let entry = AppliedEntry { id, events: Vec::new(), replay: true, replaced: true };
        let _ = self.events.send(Arc::new(entry));
    }

    fn publish(&self, state: AppliedState, id: LogId, is_of_commands: bool) {
        if let Some(capture) = self.capture().as_mut()
            && capture.index == id.index
        {
            capture.table = Some(Arc::clone(&state.table));
        }
        self.state.store(Arc::new(state));
        // Between the two: a reader that sees the flag finds the commands, and a waiter that wakes sees the flag.
        if is_of_commands {
            self.commands_applied.store(true, Ordering::Release);
        }
        self.applied.send_replace(Some(id));
    }

    /// Keeps the tables at exactly one index, for [`AppliedStatePublisher::take_captured`].
    pub(crate) fn capture_at(&self, index: u64) {
        let mut capture = self.capture();
        let table = self.table();
        let now = table.revision().is_some_and(|id| id.index == index).then_some(table);
        *capture = Some(Capture { index, table: now });
    }

    /// The tables at the index that was to be captured, if the node was at that index.
    pub(crate) fn take_captured(&self, index: u64) -> Option<Arc<RouteInfo>> {
        match self.capture().take() {
            Some(capture) if capture.index == index => capture.table,
            _ => None,
        }
    }

    fn capture(&self) -> MutexGuard<'_, Option<Capture>> {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
