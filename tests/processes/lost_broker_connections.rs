//! Brokers that lose their connections to one node after the other.

use crate::process::{Node, Play, cluster, leader, removed, stay_for, until, until_there_are};
use crate::tcp_proxy::{State, TcpProxy};
use std::time::{Duration, Instant};

/// Timeout of the brokers, which send heartbeats every second.
const TIMEOUT: Duration = Duration::from_secs(4);
/// For a busy machine: time in which no majority was connected does not count as idle.
const MARGIN: Duration = Duration::from_secs(8);
const BROKERS: usize = 2;

#[test]
fn brokers_stay_while_one_of_their_connections_is_not_blocked() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = cluster(dir.path());
    let took = lose_one_after_the_other(&nodes, State::Blocked);
    assert!(took > TIMEOUT - Duration::from_secs(2), "they sent heartbeats a second ago: {took:?}");
    assert!(took < TIMEOUT + MARGIN, "still there after {took:?}");
    for node in &nodes {
        assert_eq!(removed(node), (BROKERS as u64, 0), "expired, disconnected");
    }
}

#[test]
fn brokers_stay_while_one_of_their_connections_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = cluster(dir.path());
    lose_one_after_the_other(&nodes, State::Closed);
    for node in &nodes {
        assert_eq!(removed(node), (0, BROKERS as u64), "expired, disconnected");
    }
}

/// Brings the proxy of the leader into a state, then one more, then the last. Gives how long the brokers stayed then.
fn lose_one_after_the_other(nodes: &[Node], state: State) -> Duration {
    let proxies: Vec<_> = nodes.iter().map(|node| TcpProxy::to(node.address)).collect();
    let addresses: Vec<_> = proxies.iter().map(|proxy| proxy.address.to_string()).collect();
    let _play = Play::with_timeout(&addresses, BROKERS, TIMEOUT, &["--period", "1"]);
    until("every node has answered brokers", || proxies.iter().all(TcpProxy::was_used));
    until_there_are(nodes, BROKERS);
    let first = leader(nodes);
    for at in [first, first + 1] {
        proxies[at % 3].set(state);
        stay_for(TIMEOUT * 2, nodes, BROKERS);
    }
    proxies[(first + 2) % 3].set(state);
    let lost = Instant::now();
    until_there_are(nodes, 0);
    lost.elapsed()
}
