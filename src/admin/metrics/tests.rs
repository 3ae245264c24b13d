use super::*;
use crate::admin::api::StatusView;
use crate::liveness::GuardStatus;
use raft::{LeaderState, Phase, TickLateness};
use std::time::Duration;

/// A node whose tables differ from those of nodes 2 and 3.
fn diverged() -> (Status, Readiness) {
    let status = Status {
        node_id: 1,
        cluster_id: None,
        directory_id: 1,
        phase: Phase::Recovered,
        leadership: LeaderState::default(),
        since_leader_contact: None,
        members: Vec::new(),
        last: None,
        committed: None,
        applied: None,
        lag: raft::Lag::default(),
        purged: None,
        snapshot: None,
        log_bytes: 0,
        state_hash: None,
        diverged: vec![2, 3],
        tick_lateness: TickLateness::default(),
        alerts: String::new(),
    };
    (status, Readiness { ready: true, reason: String::new(), stale: false })
}

#[derive(Debug)]
struct OfANode(Status, Readiness);

impl Collector for OfANode {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        node(&mut Out(encoder), &self.0, &self.1)
    }
}

#[test]
fn tables_that_differ_and_late_ticks_are_metrics() {
    let (mut status, readiness) = diverged();
    status.tick_lateness =
        TickLateness { counts: [5, 0, 0, 0, 2, 0, 0, 0, 1], sum: Duration::from_millis(2_160) };
    let view = StatusView::new(&status, &readiness, GuardStatus::default(), &storage::RouteInfo::default());
    assert_eq!(serde_json::to_value(view).unwrap()["divergedFrom"], serde_json::json!([2, 3]));

    let mut registry = Registry::with_prefix("rocketmq_namesrv");
    registry.register_collector(Box::new(OfANode(status, readiness)));
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    assert!(text.contains("\nrocketmq_namesrv_state_diverged 2\n"), "{text}");
    for line in
        ["bucket{le=\"0.05\"} 5", "bucket{le=\"0.1\"} 7", "bucket{le=\"+Inf\"} 8", "sum 2.16", "count 8"]
    {
        assert!(
            text.contains(&format!("\nrocketmq_namesrv_raft_tick_lateness_seconds_{line}\n")),
            "{line}: {text}"
        );
    }
}
