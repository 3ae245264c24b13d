//! Nodes that do not run for a while, while brokers live on: whose brokers go, and when.

use crate::process::{Node, Play, all_ready, brokers, cluster, leader, removed, until};
use std::time::{Duration, Instant};

/// Of the brokers, which beat every second.
const TIMEOUT: Duration = Duration::from_secs(4);
const BROKERS: usize = 4;

fn play(nameservers: &[&Node]) -> Play {
    let nameservers: Vec<_> = nameservers.iter().map(|node| node.at()).collect();
    let (count, timeout_ms) = (BROKERS.to_string(), TIMEOUT.as_millis().to_string());
    let flags = ["--brokers", &count, "--topics", "3", "--period", "1", "--broker-timeout-ms", &timeout_ms];
    Play::start(&nameservers.join(","), &flags)
}

/// As long as it takes, these nodes know all brokers.
fn all_stay_for(time: Duration, nodes: &[&Node]) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        for node in nodes {
            assert_eq!(brokers(&node.at()).len(), BROKERS, "at {} after {:?}", node.at(), begun.elapsed());
        }
    }
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
    // Each in turn, as a leader or not; the first one leads for sure.
    let first = leader(&nodes);
    for paused in (first..first + 3).map(|at| &nodes[at % 3]) {
        let others: Vec<_> = nodes.iter().filter(|node| node.at() != paused.at()).collect();
        paused.pause(true);
        all_stay_for(TIMEOUT * 3, &others);
        paused.pause(false);
        all_stay_for(TIMEOUT, &others);
        assert_eq!(brokers(&paused.at()).len(), BROKERS);
        for node in &nodes {
            assert_eq!(removed(node), (0, 0), "expired, disconnected");
        }
    }
}

/// Their tables are on disk, and how long they were down says nothing about brokers.
#[test]
fn all_nodes_that_were_down_for_longer_than_the_timeout_remove_nobody_when_they_are_back() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = cluster(dir.path());
    let _play = play(&nodes.iter().collect::<Vec<_>>());
    for node in &nodes {
        until("the brokers are there", || brokers(&node.at()).len() == BROKERS);
    }
    let ended: Vec<_> = nodes.into_iter().map(Node::kill).collect();
    let down = Instant::now();
    until("down for longer than the timeout", || down.elapsed() > TIMEOUT * 2);
    let nodes: Vec<_> = ended.iter().map(|node| node.start()).collect();
    all_ready(&nodes);
    all_stay_for(TIMEOUT * 2, &nodes.iter().collect::<Vec<_>>());
    for node in &nodes {
        assert_eq!(removed(node), (0, 0), "expired, disconnected");
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
        assert_eq!(removed(node), (BROKERS as u64, 0), "expired, disconnected");
    }
}
