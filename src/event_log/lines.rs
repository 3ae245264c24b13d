//! One log line per event of an applied entry.

use super::conflicts::{ConflictCounters, describe_conflict};
use crate::warn_limit::WarnLimits;
use raft::AppliedEntry;
use storage::command::Cause;
use storage::outcome::{Event, PermissionCause, RemovedBy};

/// Logs at info on the leader, at debug on other nodes.
macro_rules! log_at {
    ($leading:expr, $($line:tt)+) => {
        if $leading { tracing::info!($($line)+) } else { tracing::debug!($($line)+) }
    };
}

/// Lines about single topics per entry; the topics beyond are counted in one line.
const TOPIC_LINES_MAX: usize = 20;

pub(super) fn log_entry(
    entry: &AppliedEntry,
    leading: bool,
    conflicts: &WarnLimits,
    counters: &ConflictCounters,
) {
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
        log_at!(leading, revision, more = topic_lines - TOPIC_LINES_MAX, "more topics changed in this entry");
    }
}

fn log_topic(revision: u64, event: &Event, leading: bool) {
    match event {
        Event::TopicNew { topic, broker, queues, resurrected } => log_at!(
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
            log_at!(leading, revision, %topic, %broker, ?old, ?new, "topic changed");
        }
        Event::TopicGone { topic, broker: Some(broker) } => {
            log_at!(leading, revision, %topic, %broker, "topic gone from a broker name");
        }
        Event::TopicGone { topic, broker: None } => log_at!(leading, revision, %topic, "topic gone"),
        _ => {}
    }
}

fn log_other(revision: u64, event: &Event, leading: bool) {
    match event {
        Event::BrokerRegistered { cluster, broker, id, address, ha_address, first } => log_at!(
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
        Event::BrokerRemoved { cluster, broker, id, address, incarnation, cause } => log_at!(
            leading,
            revision,
            %cluster,
            %broker,
            id,
            %address,
            %incarnation,
            idle_ms = idle_ms(*cause),
            cause = removal_cause(*cause),
            "broker removed"
        ),
        Event::NameGone { cluster, broker } => {
            log_at!(leading, revision, %cluster, %broker, "broker name gone")
        }
        Event::ClusterGone { cluster } => log_at!(leading, revision, %cluster, "cluster gone"),
        Event::PermissionChanged { broker, writable, why, topics } => {
            let why = match why {
                PermissionCause::Asked => "asked",
                PermissionCause::MasterGone => "master gone",
            };
            log_at!(leading, revision, %broker, writable, topics, why, "write permission changed");
        }
        Event::MinBrokerIdChanged { broker, min_id, min_address, .. } => {
            log_at!(leading, revision, %broker, min_id, %min_address, "lowest broker id changed");
        }
        Event::KvChanged { namespace, key, deleted } => {
            tracing::debug!(revision, %namespace, %key, deleted, "KV changed");
        }
        Event::SettingsChanged { changes } => {
            for (key, old, new) in changes {
                log_at!(leading, revision, %key, %old, %new, "setting changed");
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
        (false, _) => log_at!(leading, revision, "the mass eviction guard ends: it keeps no broker any more"),
    }
}

fn log_conflict(revision: u64, event: &Event, leading: bool, conflicts: &WarnLimits) {
    let Event::Conflict { kind, broker, id, holder, claimant } = event else { return };
    let what = describe_conflict(*kind);
    match conflicts.allow(broker).filter(|_| leading) {
        Some(held_back) => {
            tracing::warn!(revision, %broker, id, %holder, %claimant, held_back, "conflict: {what}");
        }
        None => tracing::debug!(revision, %broker, id, %holder, %claimant, "conflict: {what}"),
    }
}

fn removal_cause(cause: RemovedBy) -> &'static str {
    match cause {
        RemovedBy::Removal(Cause::Asked) => "asked",
        RemovedBy::Removal(Cause::Disconnected) => "disconnected",
        RemovedBy::Removal(Cause::Expired { .. }) => "expired",
        RemovedBy::Moved => "moved",
        RemovedBy::Replaced => "replaced",
    }
}

/// Idle time of a broker that expired, milliseconds; 0 for other causes.
fn idle_ms(cause: RemovedBy) -> u64 {
    match cause {
        RemovedBy::Removal(Cause::Expired { idle_ms }) => idle_ms,
        _ => 0,
    }
}
