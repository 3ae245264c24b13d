//! What readers see: the tables as of the last applied entry, and the news of each entry.

use crate::api::AppliedEntry;
use crate::consensus::types::StoredMembership;
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use storage::outcome::Event;
use storage::{LogId, RouteInfo};
use tokio::sync::{broadcast, watch};

/// Entries that a receiver of news may lag behind before it is told to look at the tables instead.
const NEWS_MAX: usize = 4096;

/// A consistent state: tables and the membership at the same entry.
#[derive(Clone, Default)]
pub(crate) struct State {
    /// The tables.
    pub(crate) table: Arc<RouteInfo>,
    /// The last membership at or before the tables' revision.
    pub(crate) membership: Arc<StoredMembership>,
}

/// The state that readers see. Written by apply only.
pub(crate) struct Published {
    state: ArcSwap<State>,
    applied: watch::Sender<Option<LogId>>,
    entries: broadcast::Sender<Arc<AppliedEntry>>,
    /// Applying what had been committed before this start.
    replaying: AtomicBool,
    /// No entry of commands has ever been applied: the cluster's first one is still to come. It may be empty.
    fresh: AtomicBool,
    /// A state that someone wants at exactly one index.
    wanted: Mutex<Option<(u64, Option<Arc<RouteInfo>>)>>,
}

impl Default for Published {
    fn default() -> Self {
        Self {
            state: ArcSwap::from_pointee(State::default()),
            applied: watch::Sender::new(None),
            entries: broadcast::Sender::new(NEWS_MAX),
            replaying: AtomicBool::new(true),
            fresh: AtomicBool::new(true),
            wanted: Mutex::new(None),
        }
    }
}

impl Published {
    /// The state as of the last applied entry.
    pub(crate) fn state(&self) -> Arc<State> {
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

    /// News of entries.
    pub(crate) fn news(&self) -> broadcast::Receiver<Arc<AppliedEntry>> {
        self.entries.subscribe()
    }

    /// Whether no entry of commands has ever been applied.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh.load(Ordering::Acquire)
    }

    /// The commands applied from now on are new, not a replay.
    pub(crate) fn end_replay(&self) {
        self.replaying.store(false, Ordering::Release);
    }

    /// Shows the state after an entry, then tells the news.
    pub(crate) fn entry_applied(&self, state: State, id: LogId, events: Vec<Event>, of_commands: bool) {
        let replay = self.replaying.load(Ordering::Acquire);
        self.show(state, id, of_commands);
        // Nobody listening is fine.
        let _ = self.entries.send(Arc::new(AppliedEntry { id, events, replay, replaced: false }));
    }

    /// Shows the state of a snapshot, then tells that the tables are others.
    pub(crate) fn snapshot_installed(&self, state: State, id: LogId) {
        // A snapshot is only ever made of a state that an entry of commands has made.
        self.show(state, id, true);
        let entry = AppliedEntry { id, events: Vec::new(), replay: true, replaced: true };
        let _ = self.entries.send(Arc::new(entry));
    }

    fn show(&self, state: State, id: LogId, of_commands: bool) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((index, kept)) = wanted.as_mut()
            && *index == id.index
        {
            *kept = Some(Arc::clone(&state.table));
        }
        drop(wanted);
        self.state.store(Arc::new(state));
        // Between the two: who finds it not fresh finds the commands, and who is woken finds it not fresh.
        if of_commands {
            self.fresh.store(false, Ordering::Release);
        }
        self.applied.send_replace(Some(id));
    }

    /// Asks for the tables at exactly one index, to be fetched with [`Published::take_wanted`].
    pub(crate) fn want(&self, index: u64) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let table = self.table();
        let already = table.revision().is_some_and(|id| id.index == index).then_some(table);
        *wanted = Some((index, already));
    }

    /// The tables at the index that was wanted, if they were seen.
    pub(crate) fn take_wanted(&self, index: u64) -> Option<Arc<RouteInfo>> {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        match wanted.take() {
            Some((at, table)) if at == index => table,
            _ => None,
        }
    }
}
