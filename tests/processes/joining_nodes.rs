//! Nodes that join while brokers are registered, and that no broker connects to.

use crate::process::{Node, Play, cluster, removed, run, status, stay_for, stdout_of};
use crate::process::{until, until_there_are};
use crate::tcp_proxy::{State, TcpProxy};
use std::path::Path;
use std::time::{Duration, Instant};

/// Timeout of the brokers, which send heartbeats every second.
const TIMEOUT: Duration = Duration::from_secs(4);
/// For a busy machine: time in which no majority was connected does not count as idle.
const MARGIN: Duration = Duration::from_secs(8);
/// Brokers that stay.
const LIVING: usize = 3;

fn play(addresses: &[String], first: &str, brokers: usize) -> Play {
    Play::with_timeout(addresses, brokers, TIMEOUT, &["--period", "1", "--first", first])
}

/// A node that joins and is promoted to a voter.
fn voter(id: &str, members: &[Node], dir: &Path) -> Node {
    let contact = format!("1={}", members[0].peers());
    let node = Node::start(&dir.join(id), &["--node-id", id, "--members", &contact]);
    let contact_client = members[0].at();
    stdout_of(&["members", "add", &format!("{id}={}", node.peers()), "-n", &contact_client]);
    // Refused until it has caught up.
    until("it is a voter", || run(&["members", "promote", id, "-n", &contact_client]).status.success());
    node
}

#[test]
fn a_leader_without_connections_of_brokers_keeps_the_living_and_removes_the_dead() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path());
    let addresses: Vec<_> = nodes.iter().map(Node::at).collect();
    let proxies: Vec<_> = nodes.iter().map(|node| TcpProxy::to(node.address)).collect();
    let through_proxies: Vec<_> = proxies.iter().map(|proxy| proxy.address.to_string()).collect();
    let _living = play(&addresses, "0", LIVING);
    let (killed, _blocked) = (play(&addresses, "10", 1), play(&through_proxies, "11", 1));
    until("every node has answered brokers", || proxies.iter().all(TcpProxy::was_used));
    until_there_are(&nodes, LIVING + 2);
    for id in ["4", "5"] {
        nodes.push(voter(id, &nodes[..3], dir.path()));
    }
    let joined_node_leads = || {
        until("the node that joined leads", || {
            run(&["transfer", "--to", "4", "-n", &addresses[0]]);
            status(&nodes[3])["leading"] == true
        });
    };
    joined_node_leads();
    stay_for(TIMEOUT * 3, &nodes, LIVING + 2);

    // It still leads, unless a busy machine has caused an election.
    joined_node_leads();
    drop(killed);
    until_there_are(&nodes, LIVING + 1);
    proxies.iter().for_each(|proxy| proxy.set(State::Blocked));
    let blocked = Instant::now();
    until_there_are(&nodes, LIVING);
    assert!(blocked.elapsed() < TIMEOUT + MARGIN, "still there after {:?}", blocked.elapsed());
    for node in &nodes {
        assert_eq!(removed(node), (1, 1), "expired, disconnected");
    }
    stay_for(TIMEOUT, &nodes, LIVING);
}
