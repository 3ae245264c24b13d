//! Metrics, in the text format that Prometheus reads. Each scrape reads the counters of the parts. No label takes a
//! value from outside (topic, address).

mod out;

use super::api::{CountsView, Readiness};
use super::places::Places;
use crate::budget::{Budget, Budgets};
use crate::liveness::Totals;
use crate::logging;
use crate::node::RunningNode;
use out::Out;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::{Registry, Unit};
use raft::Status;
use std::fmt;
use std::sync::Arc;

pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of a node.
pub(super) fn text(running: RunningNode, places: Arc<Places>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("rocketmq_namesrv");
    registry.register_collector(Box::new(NodeMetrics(running, places)));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

struct NodeMetrics(RunningNode, Arc<Places>);

impl fmt::Debug for NodeMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeMetrics")
    }
}

impl Collector for NodeMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Out(encoder);
        node(&mut out, &self.0.node.status(), &Readiness::of(&self.0))?;
        tables(&mut out, &self.0)?;
        port(&mut out, &self.0)?;
        budgets(&mut out, self.0.service.budgets())?;
        http(&mut out, &self.1)?;
        registrations(&mut out, &self.0)?;
        liveness(&mut out, &self.0)
    }
}

fn node(out: &mut Out<'_>, status: &Status, readiness: &Readiness) -> fmt::Result {
    let index = |id: Option<storage::LogId>| id.map_or(0, |id| id.index);
    out.gauge(
        "ready",
        "1 while this node answers look-ups and keeps up with the leader",
        None,
        u64::from(readiness.ready),
    )?;
    out.gauge(
        "stale",
        "1 while this node answers look-ups without a leader, so that responses may be stale",
        None,
        u64::from(readiness.stale),
    )?;
    out.gauge("leading", "1 while this node is the leader", None, u64::from(status.leadership.leading))?;
    out.gauge("raft_term", "Current Raft term", None, status.leadership.term)?;
    out.gauge("raft_last_index", "Index of the last log entry", None, index(status.last))?;
    out.gauge("raft_committed_index", "Index of the last committed entry", None, index(status.committed))?;
    out.gauge(
        "raft_applied_index",
        "Index of the last applied entry: the revision",
        None,
        index(status.applied),
    )?;
    out.gauge(
        "lag_entries",
        "Entries that the leader has committed and this node has not applied",
        None,
        status.lag.entries,
    )?;
    out.gauge("raft_purged_index", "Index of the last purged entry", None, index(status.purged))?;
    out.gauge(
        "raft_snapshot_index",
        "Index of the last entry in the newest snapshot",
        None,
        index(status.snapshot),
    )?;
    out.gauge("raft_log", "Size of the log", Some(&Unit::Bytes), status.log_bytes)?;
    let reachable = status.members.iter().filter(|m| m.reachable).count();
    out.gauge("members", "Members of the Raft group", None, status.members.len() as u64)?;
    out.gauge(
        "members_reachable",
        "Members with a working connection, this node included",
        None,
        reachable as u64,
    )?;
    out.gauge(
        "state_diverged",
        "Nodes whose tables differed from those of this node at the same entry: an alarm",
        None,
        status.diverged.len() as u64,
    )?;
    out.counter(
        "log_lines_dropped",
        "Log lines dropped, since stderr was not read in time",
        None,
        logging::dropped_lines(),
    )?;
    if let Some(since) = status.since_leader_contact {
        out.seconds("since_leader", "Time since the last message from a leader", since)?;
    }
    out.tick_lateness(&status.tick_lateness)
}

fn tables(out: &mut Out<'_>, running: &RunningNode) -> fmt::Result {
    let counts = CountsView::new(&running.node.table());
    out.gauge("topics", "Topics in the table", None, counts.topics as u64)?;
    out.gauge("brokers", "Registered broker processes", None, counts.brokers as u64)?;
    out.gauge("broker_names", "Registered broker names", None, counts.broker_names as u64)?;
    out.gauge("clusters", "RocketMQ clusters in the table", None, counts.clusters as u64)
}

fn port(out: &mut Out<'_>, running: &RunningNode) -> fmt::Result {
    let c = running.server.counters();
    out.gauge("connections_open", "Open connections", None, c.connections_now.get())?;
    out.gauge(
        "connections_max",
        "Connections that this node accepts: connectionsMax, or less when it may open too few files",
        None,
        running.server.connections_max() as u64,
    )?;
    out.counter("connections", "Connections accepted", None, c.connections.get())?;
    let closed = [
        ("peer", &c.closed_by_peer),
        ("limit", &c.connections_refused),
        ("idle", &c.closed_idle),
        ("broken_frame", &c.closed_broken_frame),
        ("tls", &c.closed_tls),
        ("slow_reader", &c.closed_slow_reader),
        ("slow_frame", &c.closed_slow_frame),
        ("broker_expired", &c.closed_expired),
        ("node_removed", &c.closed_removed),
    ];
    out.counted("connections_closed", "Connections closed, by reason", "reason", closed)?;
    let known = c.requests.iter().map(|(code, count)| (code.to_string(), count));
    let all = known.chain([("other".to_owned(), c.requests.others())]);
    out.counters("requests", "Requests received, by request code", "code", all)?;
    let busy = [("connection", &c.busy_connection), ("server", &c.busy_server)];
    out.counted("requests_refused_busy", "Requests answered SYSTEM_BUSY, by limit", "limit", busy)?;
    out.gauge(
        "requests_in_flight",
        "Requests in flight: received, without a response yet",
        None,
        c.in_flight_now.get(),
    )?;
    out.gauge(
        "requests_in_flight_body",
        "Bytes of the requests in flight",
        Some(&Unit::Bytes),
        c.in_flight_bytes_now.get(),
    )?;
    let routes = running.service.routes();
    out.gauge("route_cache", "Size of the route cache", Some(&Unit::Bytes), routes.bytes() as u64)?;
    let lookups = [("hit", &routes.hits), ("miss", &routes.misses)];
    out.counted("route_cache_lookups", "Look-ups in the route cache", "result", lookups)?;
    out.counter("received", "Bytes received", Some(&Unit::Bytes), c.received_bytes.get())?;
    out.counter("sent", "Bytes sent", Some(&Unit::Bytes), c.sent_bytes.get())
}

fn budgets(out: &mut Out<'_>, budgets: &Budgets) -> fmt::Result {
    let of_each = |value: fn(&Budget) -> u64| budgets.all().map(|of| (of.kind.to_owned(), value(of)));
    out.gauges(
        "budget",
        "What the connections of clients hold together",
        Some(&Unit::Bytes),
        "kind",
        of_each(Budget::bytes),
    )?;
    out.gauges(
        "budget_limit",
        "Limit of what they may hold; one of them at a time may go beyond",
        Some(&Unit::Bytes),
        "kind",
        of_each(Budget::bytes_max),
    )?;
    out.counters(
        "budget_waits",
        "Frames, registrations and replies that waited since a budget was full",
        "kind",
        of_each(|budget| budget.waited.get()),
    )?;
    out.counters(
        "budget_refusals",
        "Requests answered SYSTEM_BUSY since a budget was full",
        "kind",
        of_each(|budget| budget.refused.get()),
    )
}

fn http(out: &mut Out<'_>, places: &Places) -> fmt::Result {
    let closed = [("gave_way", &places.gave_way), ("limit", &places.refused)];
    out.counted(
        "http_connections_closed",
        "HTTP connections that gave their place to a new one, or found none",
        "reason",
        closed,
    )
}

fn registrations(out: &mut Out<'_>, running: &RunningNode) -> fmt::Result {
    let c = &running.service.registrations;
    let results = [
        ("known_digest", &c.known_digest),
        ("unchanged", &c.unchanged),
        ("difference", &c.differences),
        ("whole", &c.wholes),
        ("recomputed", &c.conflicts),
        ("outdated", &c.outdated),
        ("refused", &c.refused),
        ("no_leader", &c.no_leader),
    ];
    out.counted("registrations", "Registrations that this node received, by outcome", "result", results)?;
    out.counter(
        "registrations_implausible_address",
        "Registrations with a broker address that no client can connect to",
        None,
        c.implausible_addresses.get(),
    )?;
    let conflicts = [
        ("address", &running.conflicts.address),
        ("cluster", &running.conflicts.cluster),
        ("state_version", &c.outdated),
    ];
    out.counted(
        "conflicts",
        "Brokers that claimed the place of another broker: its name and id, or its name in another cluster; or that lost \
         their place to a higher stateVersion at this node",
        "kind",
        conflicts,
    )
}

fn liveness(out: &mut Out<'_>, running: &RunningNode) -> fmt::Result {
    let Totals { guard, counters } = running.liveness.totals();
    let removed = [("expired", counters.expired), ("disconnected", counters.disconnected)];
    let removed = removed.map(|(cause, count)| (cause.to_owned(), count));
    out.counters(
        "brokers_removed",
        "Brokers that were removed without their request, by cause",
        "cause",
        removed,
    )?;
    out.counter(
        "removals_retried",
        "Removals that the leader decided again",
        None,
        counters.removals_retried,
    )?;
    out.counter("heartbeats", "Heartbeats received on connections of this node", None, counters.heartbeats)?;
    out.counter(
        "heartbeats_unknown",
        "Heartbeats (BROKER_HEARTBEAT) of brokers that are not in the table of this node",
        None,
        running.service.heartbeats_unknown.get(),
    )?;
    out.counter("reports_sent", "Liveness reports sent to the leader", None, counters.reports_sent)?;
    out.counter("reports_failed", "Liveness reports without a response", None, counters.reports_failed)?;
    out.counter(
        "report_gaps",
        "Liveness reports that did not follow the one before",
        None,
        counters.report_gaps,
    )?;
    out.counter("pauses", "Pauses of this process: it was not scheduled", None, counters.pauses)?;
    out.counter(
        "min_broker_id_notices",
        "Notices of a changed lowest broker id",
        None,
        running.notices.due.get(),
    )?;
    let notices = [("sent", &running.notices.sent), ("failed", &running.notices.failed)];
    out.counted(
        "min_broker_id_notice_sends",
        "Notices of a changed lowest broker id that this node sent to a broker, by result",
        "result",
        notices,
    )?;
    out.counter(
        "sessions_refused",
        "Heartbeats of brokers refused with SYSTEM_BUSY, since sessionsMax is reached",
        None,
        counters.sessions_refused,
    )?;
    out.gauge(
        "eviction_guard_enabled",
        "1 while the mass eviction guard is switched on",
        None,
        u64::from(guard.enabled),
    )?;
    out.gauge("eviction_guard_held", "Brokers that the guard keeps now", None, guard.held as u64)?;
    let held_for = guard.active_for.unwrap_or_default();
    out.seconds(
        "eviction_guard_held_for",
        "Time since the guard last began to hold removals back; 0 while it does not",
        held_for,
    )
}

#[cfg(test)]
mod tests;
