//! Nodes that are cut off from each other, while brokers go on at all of them.

use crate::process::{
    Node, Play, brokers, cluster_behind, json_of, leader, removed, status, stay_for, until, until_there_are,
};
use crate::wire::{State, Wire};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Of the brokers, which beat every second.
const TIMEOUT: Duration = Duration::from_secs(4);
const BROKERS: usize = 4;

/// Cuts a node off from both others, or ends that.
fn cut_off(at: usize, cut: bool, nodes: &[Node], wires: &BTreeMap<usize, Wire>) {
    for (to, wire) in wires {
        if *to == at {
            wire.set(if cut { State::Silent } else { State::Whole });
        } else {
            wire.set_silent_to(nodes[at].process(), cut);
        }
    }
}

/// Waits until all nodes stand at one revision; the states of all must be the same there.
fn until_the_same(nodes: &[Node]) {
    let addresses: Vec<_> = nodes.iter().map(Node::at).collect();
    until("all are at one revision", || {
        // Fails when two states differ at one revision.
        let told = json_of(&["status", "--json", "--hash", "-n", &addresses.join(",")]);
        let told = told.as_array().unwrap();
        assert!(told.iter().all(|node| node["stateHash"].is_string()), "{told:?}");
        told.iter().all(|node| node["revision"] == told[0]["revision"])
    });
}

/// Three nodes that reach each other over wires.
fn behind_wires(dir: &Path) -> (Vec<Node>, BTreeMap<usize, Wire>) {
    let mut wires = BTreeMap::new();
    let nodes = cluster_behind(dir, &[], |at, own| {
        let wire = Wire::that_tells_apart(own);
        let front = wire.address;
        wires.insert(at, wire);
        front
    });
    (nodes, wires)
}

/// Waits until a node that was cut off knows it, and one of the others leads.
fn until_apart(at: usize, nodes: &[Node]) {
    until("it knows no leader", || status(&nodes[at])["stale"] == true);
    until("one of the others leads", || {
        nodes.iter().enumerate().any(|(other, node)| other != at && status(node)["leading"] == true)
    });
}

#[test]
fn a_follower_and_a_leader_that_are_cut_off_from_the_others_take_no_broker_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let (nodes, wires) = behind_wires(dir.path());
    let addresses: Vec<_> = nodes.iter().map(Node::at).collect();
    let _play = Play::with_timeout(&addresses, BROKERS, TIMEOUT, &["--period", "1"]);
    until_there_are(&nodes, BROKERS);
    for led in [false, true] {
        let leads = leader(&nodes);
        let at = if led { leads } else { (leads + 1) % 3 };
        cut_off(at, true, &nodes, &wires);
        until_apart(at, &nodes);
        stay_for(TIMEOUT * 3, &nodes, BROKERS);
        assert_eq!(status(&nodes[at])["stale"], true, "it was cut off all the time");
        cut_off(at, false, &nodes, &wires);
        until("it knows the leader", || status(&nodes[at])["stale"] == false);
        stay_for(TIMEOUT, &nodes, BROKERS);
        for node in &nodes {
            assert_eq!(removed(node), (0, 0), "expired, disconnected; it was cut off as a leader: {led}");
        }
        until_the_same(&nodes);
    }
}

/// It alone knows, and cannot remove them: the next leader does.
#[test]
fn brokers_that_leave_a_leader_that_is_cut_off_are_gone_soon_after_it_is_back() {
    /// The brokers' own timeout is far longer.
    const GONE_WITHIN: Duration = Duration::from_secs(8);
    let dir = tempfile::tempdir().unwrap();
    let (nodes, wires) = behind_wires(dir.path());
    let addresses: Vec<_> = nodes.iter().map(Node::at).collect();
    let at = leader(&nodes);
    let play = |addresses: &[String], first: &str, count: &str| {
        let flags = ["--first", first, "--brokers", count, "--topics", "3", "--period", "1"];
        Play::start(&addresses.join(","), &flags)
    };
    let _living = play(&addresses, "0", "3");
    let leaving = play(&addresses[at..=at], "10", "1");
    until_there_are(&nodes, 4);
    cut_off(at, true, &nodes, &wires);
    drop(leaving);
    until_apart(at, &nodes);
    for node in &nodes {
        assert_eq!(brokers(&node.at()).len(), 4, "at {}", node.at());
    }
    cut_off(at, false, &nodes, &wires);
    let back = Instant::now();
    until_there_are(&nodes, 3);
    assert!(back.elapsed() < GONE_WITHIN, "{:?}", back.elapsed());
    for node in &nodes {
        assert_eq!(removed(node), (0, 1), "expired, disconnected");
    }
    until_the_same(&nodes);
}
