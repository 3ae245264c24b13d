//! Partitions between nodes, while brokers go on at all of them.

use crate::process::{
    Node, Play, brokers, cluster_behind, json_of, leader, removed, status, stay_for, until, until_there_are,
};
use crate::tcp_proxy::{State, TcpProxy};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Timeout of the brokers, which send heartbeats every second.
const TIMEOUT: Duration = Duration::from_secs(4);
const BROKERS: usize = 4;

/// Partitions a node from both others, or heals that.
fn partition(at: usize, partitioned: bool, nodes: &[Node], proxies: &BTreeMap<usize, TcpProxy>) {
    for (to, proxy) in proxies {
        if *to == at {
            proxy.set(if partitioned { State::Blocked } else { State::Open });
        } else {
            proxy.set_blocked(nodes[at].process(), partitioned);
        }
    }
}

/// Waits until all nodes have applied one revision; their states must be equal there.
fn until_states_are_equal(nodes: &[Node]) {
    let addresses: Vec<_> = nodes.iter().map(Node::at).collect();
    until("all are at one revision", || {
        // Fails when two states differ at one revision.
        let statuses = json_of(&["status", "--json", "--hash", "-n", &addresses.join(",")]);
        let statuses = statuses.as_array().unwrap();
        assert!(statuses.iter().all(|node| node["stateHash"].is_string()), "{statuses:?}");
        statuses.iter().all(|node| node["revision"] == statuses[0]["revision"])
    });
}

/// Three nodes that reach each other through proxies.
fn behind_proxies(dir: &Path) -> (Vec<Node>, BTreeMap<usize, TcpProxy>) {
    let mut proxies = BTreeMap::new();
    let nodes = cluster_behind(dir, &[], |at, own| {
        let proxy = TcpProxy::per_process(own);
        let address = proxy.address;
        proxies.insert(at, proxy);
        address
    });
    (nodes, proxies)
}

/// Waits until a partitioned node is stale, and one of the others leads.
fn until_partitioned(at: usize, nodes: &[Node]) {
    until("it knows no leader", || status(&nodes[at])["stale"] == true);
    until("one of the others leads", || {
        nodes.iter().enumerate().any(|(other, node)| other != at && status(node)["leading"] == true)
    });
}

#[test]
fn a_partitioned_follower_or_leader_takes_no_broker_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let (nodes, proxies) = behind_proxies(dir.path());
    let addresses: Vec<_> = nodes.iter().map(Node::at).collect();
    let _play = Play::with_timeout(&addresses, BROKERS, TIMEOUT, &["--period", "1"]);
    until_there_are(&nodes, BROKERS);
    for led in [false, true] {
        let leads = leader(&nodes);
        let at = if led { leads } else { (leads + 1) % 3 };
        partition(at, true, &nodes, &proxies);
        until_partitioned(at, &nodes);
        stay_for(TIMEOUT * 3, &nodes, BROKERS);
        assert_eq!(status(&nodes[at])["stale"], true, "it was partitioned all the time");
        partition(at, false, &nodes, &proxies);
        until("it knows the leader", || status(&nodes[at])["stale"] == false);
        stay_for(TIMEOUT, &nodes, BROKERS);
        for node in &nodes {
            assert_eq!(removed(node), (0, 0), "expired, disconnected; it was partitioned as a leader: {led}");
        }
        until_states_are_equal(&nodes);
    }
}

/// It alone knows of the disconnect, and cannot remove them: the next leader does.
#[test]
fn brokers_that_leave_a_partitioned_leader_are_gone_soon_after_the_partition_heals() {
    /// The brokers' own timeout is far longer.
    const GONE_WITHIN: Duration = Duration::from_secs(8);
    let dir = tempfile::tempdir().unwrap();
    let (nodes, proxies) = behind_proxies(dir.path());
    let addresses: Vec<_> = nodes.iter().map(Node::at).collect();
    let at = leader(&nodes);
    let play = |addresses: &[String], first: &str, count: &str| {
        let flags = ["--first", first, "--brokers", count, "--topics", "3", "--period", "1"];
        Play::start(&addresses.join(","), &flags)
    };
    let _living = play(&addresses, "0", "3");
    let leaving = play(&addresses[at..=at], "10", "1");
    until_there_are(&nodes, 4);
    partition(at, true, &nodes, &proxies);
    drop(leaving);
    until_partitioned(at, &nodes);
    for node in &nodes {
        assert_eq!(brokers(&node.at()).len(), 4, "at {}", node.at());
    }
    partition(at, false, &nodes, &proxies);
    let back = Instant::now();
    until_there_are(&nodes, 3);
    assert!(back.elapsed() < GONE_WITHIN, "{:?}", back.elapsed());
    for node in &nodes {
        assert_eq!(removed(node), (0, 1), "expired, disconnected");
    }
    until_states_are_equal(&nodes);
}
