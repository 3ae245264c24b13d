//! The events of applied entries as log lines and counters: the leader logs at info, the other nodes at debug.

mod conflicts;
mod lines;

pub use conflicts::ConflictCounters;
pub(crate) use conflicts::describe_conflict;

use crate::warn_limit::WarnLimits;
use raft::{AppliedEntry, Node};
use std::sync::Arc;
use std::time::Duration;
use storage::RouteInfo;
use storage::command::Name;
use storage::outcome::Event;
use tokio::sync::broadcast::error::RecvError;

/// Between two lines with the sizes of the KV namespaces.
const KV_SIZES_INTERVAL: Duration = Duration::from_secs(600);

/// Logs and counts the events of each applied entry until the node ends.
pub(crate) async fn log_events(node: Node, counters: Arc<ConflictCounters>) {
    let mut entries = node.entries();
    let leadership = node.leadership();
    let mut log = EventLog { counters, conflicts: WarnLimits::default(), last: None, missed: 0 };
    loop {
        match entries.recv().await {
            Ok(entry) => log.add(&entry, &node.table(), leadership.borrow().leading),
            Err(RecvError::Lagged(missed)) => log.missed += missed,
            Err(RecvError::Closed) => return,
        }
    }
}

/// What was logged so far.
struct EventLog {
    counters: Arc<ConflictCounters>,
    conflicts: WarnLimits,
    /// Index of the last entry that was no replay.
    last: Option<u64>,
    /// Entries that were applied faster than this task received them, since the last received one.
    missed: u64,
}

impl EventLog {
    fn add(&mut self, entry: &AppliedEntry, table: &RouteInfo, leading: bool) {
        let missed = std::mem::take(&mut self.missed);
        // The entries of a replay are not logged, so none of them is missed.
        if let (Some(last), 1..) = (self.last, missed) {
            tracing::warn!(missed, "too much happened at once to log each entry; the history has it");
            self.count_missed(table, last, entry.id.index);
        }
        if !entry.replay {
            self.last = Some(entry.id.index);
            lines::log_entry(entry, leading, &self.conflicts, &self.counters);
        }
    }

    /// Counts the conflicts between two entries from the history, as far as it reaches back.
    fn count_missed(&self, table: &RouteInfo, after: u64, before: u64) {
        let missed = table.audit().filter(|record| after < record.at.index && record.at.index < before);
        for record in missed {
            if let Event::Conflict { kind, .. } = &record.event {
                self.counters.count(*kind);
            }
        }
    }
}

/// Logs the KV namespaces with their sizes every 10 minutes.
pub(crate) async fn log_kv_sizes(node: Node) {
    loop {
        tokio::time::sleep(KV_SIZES_INTERVAL).await;
        let table = node.table();
        let sizes: Vec<(&Name, usize)> =
            table.kv_namespaces().map(|(name, entries)| (name, entries.len())).collect();
        tracing::info!(?sizes, "KV namespaces");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::LogId;
    use storage::command::{Change, Command, Origin, Registration};

    fn registered(address: &str) -> Command {
        let change =
            Change::RegisterBroker(Box::new(Registration::of_master("c".into(), "b".into(), address.into())));
        Command { origin: Origin { node: 1, peer: "p".into(), unix_ms: 0 }, change }
    }

    #[test]
    fn conflicts_in_missed_entries_are_counted_from_the_history() {
        let (mut table, counters) = (RouteInfo::default(), Arc::new(ConflictCounters::default()));
        let conflicts = WarnLimits::default();
        let mut log = EventLog { counters: Arc::clone(&counters), conflicts, last: None, missed: 0 };
        let mut apply = |index: u64, replay: bool| {
            let id = LogId { term: 1, index };
            let address = if index.is_multiple_of(2) { "even" } else { "odd" };
            let events = table.apply_entry(id, &[registered(address)]).events;
            (AppliedEntry { id, events, replay, replaced: false }, table.clone())
        };
        // Every entry but the first is a conflict. Conflicts of a replay are not counted, missed or not.
        for index in 1..=4 {
            let (entry, table) = apply(index, true);
            log.add(&entry, &table, false);
        }
        let applied: Vec<_> = (5..=12).map(|index| apply(index, false)).collect();
        let newest = &applied[7].1;
        log.missed = 2;
        for (entry, _) in &applied[..2] {
            log.add(entry, newest, false);
        }
        assert_eq!(counters.address.get(), 2);
        log.missed = 4;
        log.add(&applied[6].0, newest, false);
        assert_eq!(counters.address.get(), 7, "the four, and its own");
        log.add(&applied[7].0, newest, false);
        assert_eq!(counters.address.get(), 8);
    }
}
