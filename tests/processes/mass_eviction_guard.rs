//! The mass eviction guard: which brokers it keeps, what the commands show of it, and how it is switched off.

use crate::process::{Node, Play, all_ready, cluster, cluster_with, leader, metric, removed, run};
use crate::process::{stdout_of, until, until_there_are};

const BROKERS: usize = 10;
/// Above the share of 60 %.
const KEPT: usize = 4;

fn play(nodes: &[Node], first: &str, brokers: usize) -> Play {
    let addresses: Vec<_> = nodes.iter().map(Node::at).collect();
    let count = brokers.to_string();
    let flags = ["--first", first, "--brokers", &count, "--topics", "2", "--period", "2"];
    Play::start(&addresses.join(","), &flags)
}

/// Another broker comes and goes: the leader has made all earlier decisions when this returns.
fn come_and_go(nodes: &[Node], others: usize) {
    let one = play(nodes, "50", 1);
    until_there_are(nodes, others + 1);
    drop(one);
    until_there_are(nodes, others);
}

/// Kills the first node, starts it again as the last, and waits until it leads.
fn restart_to_lead(nodes: &mut Vec<Node>) {
    let ended = nodes.remove(0).kill();
    nodes.push(ended.start());
    all_ready(nodes);
    let status = run(&["status", "--json", "-n", &nodes[2].at()]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let id = status[0]["nodeId"].to_string();
    until("it leads", || {
        let leads = leader(nodes);
        leads == 2 || {
            run(&["transfer", "--to", &id, "-n", &nodes[leads].at()]);
            false
        }
    });
}

#[test]
fn most_of_many_go_and_the_rest_is_kept_through_restarts_until_they_are_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path());
    let all = play(&nodes, "0", BROKERS);
    until_there_are(&nodes, BROKERS);
    drop(all);
    until_there_are(&nodes, KEPT);
    // The leader of then need not lead now.
    assert!(nodes.iter().any(|node| node.has_logged("most brokers are gone at once")));
    // A single broker still goes.
    come_and_go(&nodes, KEPT);
    let leads = &nodes[leader(&nodes)];
    until("the leader shows it", || metric::<usize>(leads, "rocketmq_namesrv_eviction_guard_held") == KEPT);
    let status = stdout_of(&["status", "-n", &leads.at()]);
    assert!(status.contains("guard has kept 4 brokers"), "{status}");
    for node in &nodes {
        assert!(metric::<f64>(node, "rocketmq_namesrv_eviction_guard_held_for_seconds") > 0.0);
    }

    // Each node is killed in turn and leads afterwards: it must keep brokers that it has never seen.
    for _ in 0..3 {
        restart_to_lead(&mut nodes);
        come_and_go(&nodes, KEPT);
    }

    let _all = play(&nodes, "0", BROKERS);
    until_there_are(&nodes, BROKERS);
    for node in &nodes {
        until("it keeps no broker", || {
            metric::<f64>(node, "rocketmq_namesrv_eviction_guard_held_for_seconds") == 0.0
        });
        assert!(!stdout_of(&["status", "-n", &node.at()]).contains("guard"));
    }
}

#[test]
fn switched_off_it_keeps_no_broker() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("namesrv.conf");
    std::fs::write(&file, "massEvictionGuard=false\n").unwrap();
    let nodes = cluster_with(dir.path(), &["-c", file.to_str().unwrap()]);
    let all = play(&nodes, "0", BROKERS);
    until_there_are(&nodes, BROKERS);
    drop(all);
    until_there_are(&nodes, 0);
    for node in &nodes {
        assert_eq!(removed(node), (0, BROKERS as u64), "expired, disconnected");
        assert_eq!(metric::<f64>(node, "rocketmq_namesrv_eviction_guard_enabled"), 0.0);
        assert_eq!(stdout_of(&["topics", "-n", &node.at()]), "");
    }
}

/// The way of the runbook.
#[test]
fn a_leader_that_is_restarted_with_the_guard_switched_off_lets_the_kept_go() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("namesrv.conf");
    std::fs::write(&file, "").unwrap();
    let mut nodes = cluster_with(dir.path(), &["-c", file.to_str().unwrap()]);
    let all = play(&nodes, "0", BROKERS);
    until_there_are(&nodes, BROKERS);
    drop(all);
    until_there_are(&nodes, KEPT);
    std::fs::write(&file, "massEvictionGuard=false\n").unwrap();
    restart_to_lead(&mut nodes);
    until_there_are(&nodes, 0);
}
