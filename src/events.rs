//! What happened to the cluster's state, as log lines: by the leader at info, by other nodes at debug.

use crate::server::Counter;
use crate::warn_limit::WarnLimits;
use raft::{AppliedEntry, Node};
use std::sync::Arc;
use storage::RouteInfo;
use storage::command::{Cause, Name};
use storage::outcome::{ConflictKind, Event, PermissionCause, RemovedBy};
use tokio::sync::broadcast::error::RecvError;

/// Writes a line at info on the leader, at debug elsewhere.
macro_rules! tell {
    ($leading:expr, $($line:tt)+) => {
        if $leading { tracing::info!($($line)+) } else { tracing::debug!($($line)+) }
    };
}

/// Lines about single topics per entry; more are told as a number.
const TOPIC_LINES_MAX: usize = 20;

/// Quarrels about a place that this process has applied, for metrics.
#[derive(Debug, Default)]
pub struct ConflictCounters {
    /// Two live addresses under one name and id.
    pub address: Counter,
    /// One broker name in two clusters.
    pub cluster: Counter,
}

impl ConflictCounters {
    fn count(&self, kind: ConflictKind) {
        match kind {
            ConflictKind::Address => self.address.add_one(),
            ConflictKind::Cluster => self.cluster.add_one(),
            // Refused by the node that took the registration, which counts it with its registrations.
            ConflictKind::StateVersion => {}
        }
    }
}

/// Tells what each entry did, as long as the node lives.
pub(crate) async fn log_all(node: Node, counters: Arc<ConflictCounters>) {
    let mut entries = node.entries();
    let leadership = node.leadership();
    let mut log = Log { counters, conflicts: WarnLimits::default(), last: None, missed: 0 };
    loop {
        match entries.recv().await {
            Ok(entry) => log.take(&entry, &node.table(), leadership.borrow().leading),
            Err(RecvError::Lagged(missed)) => log.missed += missed,
            Err(RecvError::Closed) => return,
        }
    }
}

/// What was told so far.
struct Log {
    counters: Arc<ConflictCounters>,
    conflicts: WarnLimits,
    /// Index of the last entry that was no replay.
    last: Option<u64>,
    /// Entries that came too fast since.
    missed: u64,
}

impl Log {
    fn take(&mut self, entry: &AppliedEntry, table: &RouteInfo, leading: bool) {
        let missed = std::mem::take(&mut self.missed);
        // During a replay nothing is told, and so nothing is missed.
        if let (Some(last), 1..) = (self.last, missed) {
            tracing::warn!(missed, "too much happened at once to log each entry; the history has it");
            self.count_missed(table, last, entry.id.index);
        }
        if !entry.replay {
            self.last = Some(entry.id.index);
            log_entry(entry, leading, &self.conflicts, &self.counters);
        }
    }

    /// The history knows what was missed between two entries, as far as it reaches back.
    fn count_missed(&self, table: &RouteInfo, after: u64, before: u64) {
        let missed = table.audit().filter(|record| after < record.at.index && record.at.index < before);
        for record in missed {
            if let Event::Conflict { kind, .. } = &record.event {
                self.counters.count(*kind);
            }
        }
    }
}

fn log_entry(entry: &AppliedEntry, leading: bool, conflicts: &WarnLimits, counters: &ConflictCounters) {
    let revision = entry.id.index;
    let mut topic_lines = 0;
    for event in &entry.events {
        match event {
            Event::TopicNew { .. } | Event::TopicChanged { .. } | Event::TopicGone { .. } => {
                topic_lines += 1;
                if topic_lines <= TOPIC_LINES_MAX {
                    log_topic(revision, event, leading);
                }
            }
            Event::Conflict { kind, .. } => {
                counters.count(*kind);
                log_conflict(revision, event, leading, conflicts);
            }
            _ => log_other(revision, event, leading),
        }
    }
    if topic_lines > TOPIC_LINES_MAX {
        tell!(leading, revision, more = topic_lines - TOPIC_LINES_MAX, "more topics changed in this entry");
    }
}

fn log_topic(revision: u64, event: &Event, leading: bool) {
    match event {
        Event::TopicNew { topic, broker, queues, resurrected } => tell!(
            leading,
            revision,
            %topic,
            %broker,
            read = queues.read,
            write = queues.write,
            perm = queues.perm,
            resurrected,
            "topic new"
        ),
        Event::TopicChanged { topic, broker, old, new } => {
            tell!(leading, revision, %topic, %broker, ?old, ?new, "topic changed");
        }
        Event::TopicGone { topic, broker: Some(broker) } => {
            tell!(leading, revision, %topic, %broker, "topic gone from a broker name");
        }
        Event::TopicGone { topic, broker: None } => tell!(leading, revision, %topic, "topic gone"),
        _ => {}
    }
}

fn log_other(revision: u64, event: &Event, leading: bool) {
    match event {
        Event::BrokerRegistered { cluster, broker, id, address, ha_address, first } => tell!(
            leading,
            revision,
            %cluster,
            %broker,
            id,
            %address,
            ha_address = ha_address.as_deref().unwrap_or("-"),
            first,
            "broker registered"
        ),
        Event::BrokerRemoved { cluster, broker, id, address, incarnation, cause } => tell!(
            leading,
            revision,
            %cluster,
            %broker,
            id,
            %address,
            %incarnation,
            silence_ms = silence_ms(*cause),
            cause = why_removed(*cause),
            "broker removed"
        ),
        Event::NameGone { cluster, broker } => {
            tell!(leading, revision, %cluster, %broker, "broker name gone")
        }
        Event::ClusterGone { cluster } => tell!(leading, revision, %cluster, "cluster gone"),
        Event::PermissionChanged { broker, writable, why, topics } => {
            let why = match why {
                PermissionCause::Asked => "asked",
                PermissionCause::MasterGone => "master gone",
            };
            tell!(leading, revision, %broker, writable, topics, why, "write permission changed");
        }
        Event::MinBrokerIdChanged { broker, min_id, min_address, .. } => {
            tell!(leading, revision, %broker, min_id, %min_address, "lowest broker id changed");
        }
        Event::KvChanged { namespace, key, deleted } => {
            tracing::debug!(revision, %namespace, %key, deleted, "KV changed");
        }
        Event::SettingsChanged { changes } => {
            for (key, old, new) in changes {
                tell!(leading, revision, %key, %old, %new, "setting changed");
            }
        }
        Event::EvictionGuardChanged { active } => log_eviction_guard(revision, *active, leading),
        _ => {}
    }
}

fn log_eviction_guard(revision: u64, active: bool, leading: bool) {
    match (active, leading) {
        (true, true) => tracing::warn!(
            revision,
            "the mass eviction guard begins: most brokers are gone at once, so those above the share are kept until \
             their timeout and the hold time have passed; massEvictionGuard=false lets them go"
        ),
        (true, false) => tracing::debug!(revision, "the mass eviction guard begins"),
        (false, _) => tell!(leading, revision, "the mass eviction guard ends: it keeps no broker any more"),
    }
}

fn log_conflict(revision: u64, event: &Event, leading: bool, conflicts: &WarnLimits) {
    let Event::Conflict { kind, broker, id, holder, claimant } = event else { return };
    let what = what_is_claimed(*kind);
    match conflicts.allow(broker).filter(|_| leading) {
        Some(held_back) => {
            tracing::warn!(revision, %broker, id, %holder, %claimant, held_back, "conflict: {what}");
        }
        None => tracing::debug!(revision, %broker, id, %holder, %claimant, "conflict: {what}"),
    }
}

pub(crate) fn what_is_claimed(kind: ConflictKind) -> &'static str {
    match kind {
        ConflictKind::Address => "two addresses claim one broker name and id",
        ConflictKind::Cluster => "one broker name in two clusters",
        ConflictKind::StateVersion => "a registration lost against a higher stateVersion",
    }
}

fn why_removed(cause: RemovedBy) -> &'static str {
    match cause {
        RemovedBy::Removal(Cause::Asked) => "asked",
        RemovedBy::Removal(Cause::Disconnected) => "disconnected",
        RemovedBy::Removal(Cause::Expired { .. }) => "expired",
        RemovedBy::Moved => "moved",
        RemovedBy::Replaced => "replaced",
    }
}

fn silence_ms(cause: RemovedBy) -> u64 {
    match cause {
        RemovedBy::Removal(Cause::Expired { idle_ms }) => idle_ms,
        _ => 0,
    }
}

/// Namespaces with their sizes, every 10 minutes.
pub(crate) async fn log_kv_sizes(node: Node) {
    const EVERY: std::time::Duration = std::time::Duration::from_secs(600);
    loop {
        tokio::time::sleep(EVERY).await;
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
    fn conflicts_in_entries_that_came_too_fast_are_counted_from_the_history() {
        let (mut table, counters) = (RouteInfo::default(), Arc::new(ConflictCounters::default()));
        let conflicts = WarnLimits::default();
        let mut log = Log { counters: Arc::clone(&counters), conflicts, last: None, missed: 0 };
        let mut apply = |index: u64, replay: bool| {
            let id = LogId { term: 1, index };
            let address = if index.is_multiple_of(2) { "even" } else { "odd" };
            let events = table.apply_entry(id, &[registered(address)]).events;
            (AppliedEntry { id, events, replay, replaced: false }, table.clone())
        };
        // Every entry but the first is a conflict. Those of a replay count for nothing, missed or not.
        for index in 1..=4 {
            let (entry, table) = apply(index, true);
            log.take(&entry, &table, false);
        }
        let told: Vec<_> = (5..=12).map(|index| apply(index, false)).collect();
        let newest = &told[7].1;
        log.missed = 2;
        for (entry, _) in &told[..2] {
            log.take(entry, newest, false);
        }
        assert_eq!(counters.address.get(), 2);
        log.missed = 4;
        log.take(&told[6].0, newest, false);
        assert_eq!(counters.address.get(), 7, "the four, and its own");
        log.take(&told[7].0, newest, false);
        assert_eq!(counters.address.get(), 8);
    }
}
