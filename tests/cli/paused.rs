//! Nodes that are stopped for a while or killed, while brokers live on: whose brokers go, and when.

use crate::process::{Node, Play, brokers, cluster, get, run, until};
use std::time::{Duration, Instant};

/// Of the brokers, which beat every second.
const TIMEOUT: Duration = Duration::from_secs(3);
const BROKERS: usize = 4;

fn play(nameservers: &[&Node]) -> Play {
    let nameservers: Vec<_> = nameservers.iter().map(|node| node.at()).collect();
    let (count, timeout_ms) = (BROKERS.to_string(), TIMEOUT.as_millis().to_string());
    let flags = ["--brokers", &count, "--topics", "3", "--period", "1", "--broker-timeout-ms", &timeout_ms];
    Play::start(&nameservers.join(","), &flags)
}

/// The place of the node that leads.
fn leader(nodes: &[Node]) -> usize {
    let leads = |node: &Node| {
        let output = run(&["status", "--json", "-n", &node.at()]);
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        status[0]["leading"] == true
    };
    let mut found = None;
    until("there is a leader", || {
        found = nodes.iter().position(leads);
        found.is_some()
    });
    found.unwrap()
}

/// How many brokers left unasked for one cause, as a node applied it since it started.
fn removed(node: &Node, cause: &str) -> u64 {
    let metrics = get(&node.http(), "/metrics");
    let line = format!("rocketmq_namesrv_brokers_removed_total{{cause=\"{cause}\"}} ");
    let count = metrics.lines().find_map(|l| l.strip_prefix(&line));
    count.unwrap_or_else(|| panic!("no {line} in {metrics}")).parse().unwrap()
}

/// To a process that did not run, everybody seems silent.
#[test]
fn a_node_that_was_stopped_for_three_timeouts_removes_nobody_when_it_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = cluster(dir.path());
    let _play = play(&nodes.iter().collect::<Vec<_>>());
    for node in &nodes {
        until("the brokers are there", || brokers(&node.at()).len() == BROKERS);
    }
    for leads in [false, true] {
        let paused = if leads { leader(&nodes) } else { (leader(&nodes) + 1) % 3 };
        let others: Vec<_> = nodes.iter().enumerate().filter(|(at, _)| *at != paused).collect();
        let all_are_there = || {
            for (_, node) in &others {
                assert_eq!(brokers(&node.at()).len(), BROKERS, "leads: {leads}");
            }
        };
        nodes[paused].pause(true);
        let begun = Instant::now();
        while begun.elapsed() < TIMEOUT * 3 {
            all_are_there();
        }
        nodes[paused].pause(false);
        let begun = Instant::now();
        while begun.elapsed() < TIMEOUT {
            all_are_there();
        }
        assert_eq!(brokers(&nodes[paused].at()).len(), BROKERS, "leads: {leads}");
        for node in &nodes {
            assert_eq!((removed(node, "expired"), removed(node, "disconnected")), (0, 0), "leads: {leads}");
        }
    }
}

/// The connections of its brokers end without anybody who could tell.
#[test]
fn brokers_known_only_to_a_node_that_is_killed_live_until_their_timeout() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path());
    let killed = nodes.remove((leader(&nodes) + 1) % 3);
    let _play = play(&[&killed]);
    for node in &nodes {
        until("the brokers are there", || brokers(&node.at()).len() == BROKERS);
    }
    killed.kill();
    for node in &nodes {
        until("the brokers are gone", || brokers(&node.at()).is_empty());
        let causes = (removed(node, "expired"), removed(node, "disconnected"));
        assert_eq!(causes, (BROKERS as u64, 0), "expired, disconnected");
    }
}
