//! Brokers that reach some of the nodes only.

use crate::process::{Node, Play, cluster, leader, removed, stay_for, until, until_there_are};
use crate::wire::{State, Wire};
use std::time::{Duration, Instant};

/// Of the brokers, which beat every second.
const TIMEOUT: Duration = Duration::from_secs(4);
/// For a busy machine: what a majority could not hear of each other is left out of silences.
const MARGIN: Duration = Duration::from_secs(8);
const BROKERS: usize = 2;

#[test]
fn brokers_whose_connections_to_nodes_fall_silent_stay_while_one_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = cluster(dir.path());
    let took = cut_one_after_the_other(&nodes, State::Silent);
    assert!(took > TIMEOUT - Duration::from_secs(2), "they last beat a second ago: {took:?}");
    assert!(took < TIMEOUT + MARGIN, "still there after {took:?}");
    for node in &nodes {
        assert_eq!(removed(node), (BROKERS as u64, 0), "expired, disconnected");
    }
}

#[test]
fn brokers_whose_connections_to_nodes_are_closed_stay_while_one_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = cluster(dir.path());
    cut_one_after_the_other(&nodes, State::Closed);
    for node in &nodes {
        assert_eq!(removed(node), (0, BROKERS as u64), "expired, disconnected");
    }
}

/// Cuts the leader's wire, then one more, then the last. Gives how long the brokers stayed after that.
fn cut_one_after_the_other(nodes: &[Node], state: State) -> Duration {
    let wires: Vec<_> = nodes.iter().map(|node| Wire::to(node.address)).collect();
    let addresses: Vec<_> = wires.iter().map(|wire| wire.address.to_string()).collect();
    let _play = Play::with_timeout(&addresses, BROKERS, TIMEOUT, &["--period", "1"]);
    until("every node has answered brokers", || wires.iter().all(Wire::was_used));
    until_there_are(nodes, BROKERS);
    let first = leader(nodes);
    for at in [first, first + 1] {
        wires[at % 3].set(state);
        stay_for(TIMEOUT * 2, nodes, BROKERS);
    }
    wires[(first + 2) % 3].set(state);
    let cut = Instant::now();
    until_there_are(nodes, 0);
    cut.elapsed()
}
