use super::*;
use crate::admin::api::StatusView;
use crate::liveness::GuardStatus;
use raft::{LeaderState, Phase};

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
fn tables_that_differ_are_a_metric_and_shown_by_status() {
    let (status, readiness) = diverged();
    let view = StatusView::new(&status, &readiness, GuardStatus::default(), &storage::RouteInfo::default());
    assert_eq!(serde_json::to_value(view).unwrap()["divergedFrom"], serde_json::json!([2, 3]));

    let mut registry = Registry::with_prefix("rocketmq_namesrv");
    registry.register_collector(Box::new(OfANode(status, readiness)));
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    assert!(text.contains("\nrocketmq_namesrv_state_diverged 2\n"), "{text}");
}
