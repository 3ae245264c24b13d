//! Nodes that are paused, down or killed while brokers live on: which brokers go, and when.

use crate::client::{Client, registration};
use crate::process::{
    Node, Play, all_ready, brokers, cluster, leader, metric, removed, stay_for, until, until_there_are,
    why_removed,
};
use std::time::{Duration, Instant};

/// Timeout of the brokers, which send heartbeats every second.
const TIMEOUT: Duration = Duration::from_secs(4);
const BROKERS: usize = 4;

fn play<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Play {
    let addresses: Vec<_> = nodes.into_iter().map(Node::at).collect();
    Play::with_timeout(&addresses, BROKERS, TIMEOUT, &["--period", "1"])
}

/// A process that did not run has seen no heartbeat meanwhile.
#[test]
fn a_node_that_was_paused_for_three_timeouts_removes_no_broker_when_it_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = cluster(dir.path());
    let _play = play(&nodes);
    until_there_are(&nodes, BROKERS);
    // Each in turn, as a leader or not; the first one leads for sure.
    let first = leader(&nodes);
    for paused in (first..first + 3).map(|at| &nodes[at % 3]) {
        let others = nodes.iter().filter(|node| node.at() != paused.at());
        paused.pause(true);
        stay_for(TIMEOUT * 3, others.clone(), BROKERS);
        paused.pause(false);
        stay_for(TIMEOUT, others, BROKERS);
        assert_eq!(brokers(&paused.at()).len(), BROKERS);
        for node in &nodes {
            assert_eq!(removed(node), (0, 0), "expired, disconnected");
        }
    }
}

/// Their tables are on disk, and the time that they were down says nothing about brokers.
#[test]
fn nodes_that_were_all_down_for_longer_than_the_timeout_remove_no_broker_when_they_are_back() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = cluster(dir.path());
    let _play = play(&nodes);
    until_there_are(&nodes, BROKERS);
    let ended: Vec<_> = nodes.into_iter().map(Node::kill).collect();
    let down = Instant::now();
    until("down for longer than the timeout", || down.elapsed() > TIMEOUT * 2);
    let nodes: Vec<_> = ended.iter().map(|node| node.start()).collect();
    all_ready(&nodes);
    stay_for(TIMEOUT * 2, &nodes, BROKERS);
    for node in &nodes {
        assert_eq!(removed(node), (0, 0), "expired, disconnected");
    }
}

/// The connections of its brokers end, and no node is left that could report it.
#[test]
fn brokers_known_only_to_a_node_that_is_killed_live_until_their_timeout() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path());
    let killed = nodes.remove((leader(&nodes) + 1) % 3);
    let _play = play([&killed]);
    until_there_are(&nodes, BROKERS);
    killed.kill();
    until_there_are(&nodes, 0);
    for node in &nodes {
        assert_eq!(removed(node), (BROKERS as u64, 0), "expired, disconnected");
    }
}

/// Brokers that give up waiting for a paused node, each without a connection to another node. Some connect again before
/// the node goes on, and some a moment later.
#[test]
fn brokers_that_connect_again_to_a_node_that_was_paused_stay() {
    /// Longer than a broker waits for an answer.
    const PAUSED: Duration = Duration::from_millis(3_200);
    const ROUNDS: usize = 3;
    const LEAVES_WITHIN: Duration = Duration::from_millis(500);
    /// Fewer than the connections that the kernel accepts for a process.
    const BROKERS: usize = 100;
    let dir = tempfile::tempdir().unwrap();
    let nodes = cluster(dir.path());
    let follower = &nodes[(leader(&nodes) + 1) % 3];
    let address = |broker: usize| format!("10.0.0.{broker}:10911");
    let register = |broker: usize| registration(&format!("b{broker}"), "0", &address(broker), &["t0", "t1"]);
    let connect = |_| Client::connect(follower.address).unwrap();
    let mut connections: Vec<_> = (0..BROKERS).map(connect).collect();
    for _ in 0..ROUNDS {
        for (broker, connection) in connections.iter_mut().enumerate() {
            connection.done(&register(broker));
        }
        until_there_are(&nodes, BROKERS);
        follower.pause(true);
        let paused = Instant::now();
        let late = connections.split_off(BROKERS / 2);
        for (broker, connection) in connections.iter_mut().enumerate() {
            connection.send(&register(broker)).unwrap();
        }
        until("given up", || paused.elapsed() > PAUSED);
        drop(late);
        // The kernel accepts the connections and their bytes.
        for (broker, connection) in connections.iter_mut().enumerate() {
            *connection = connect(broker);
            connection.send(&register(broker)).unwrap();
        }
        follower.pause(false);
        for connection in &mut connections {
            assert_eq!(connection.next().unwrap().code, 0);
        }
        let open = || metric::<usize>(follower, "rocketmq_namesrv_connections_open");
        until("the node has seen the closes", || open() <= BROKERS / 2);
        connections.extend((BROKERS / 2..BROKERS).map(connect));
    }
    let removals: Vec<_> = nodes.iter().map(removed).collect();
    let of_one =
        (0..BROKERS).map(|broker| why_removed(follower, &address(broker))).find(|why| !why.is_empty());
    assert_eq!(removals, [(0, 0); 3], "expired, disconnected: {of_one:?}");
    until_there_are(&nodes, BROKERS);

    // A broker that leaves later does go: some seconds after the node goes on, the end of a connection counts again.
    until("an end counts again", || {
        let mut leaves = connections.pop().expect("none of so many brokers could leave");
        leaves.done(&register(connections.len()));
        drop(leaves);
        let left = Instant::now();
        while left.elapsed() < LEAVES_WITHIN && removed(follower) == (0, 0) {
            std::thread::park_timeout(Duration::from_millis(50));
        }
        removed(follower) != (0, 0)
    });
    for node in &nodes {
        until("every node has applied it", || removed(node) != (0, 0));
        assert_eq!(removed(node).0, 0, "expired");
    }
}
