//! Nodes that join while brokers live, and that no broker knows.

use crate::process::{Node, Play, cluster, removed, run, status, stay_for, stdout_of};
use crate::process::{until, until_there_are};
use crate::wire::{State, Wire};
use std::path::Path;
use std::time::{Duration, Instant};

/// Of the brokers, which beat every second.
const TIMEOUT: Duration = Duration::from_secs(4);
/// For a busy machine: what a majority could not hear of each other is left out of silences.
const MARGIN: Duration = Duration::from_secs(8);
/// That live on.
const LIVING: usize = 3;

fn play(addresses: &[String], first: &str, brokers: usize) -> Play {
    Play::with_timeout(addresses, brokers, TIMEOUT, &["--period", "1", "--first", first])
}

/// A node that is taken in by members and made a voter.
fn voter(id: &str, members: &[Node], dir: &Path) -> Node {
    let contact = format!("1={}", members[0].peers());
    let node = Node::start(&dir.join(id), &["--node-id", id, "--members", &contact]);
    let asked = members[0].at();
    stdout_of(&["members", "add", &format!("{id}={}", node.peers()), "-n", &asked]);
    // Refused until it has caught up.
    until("it is a voter", || run(&["members", "promote", id, "-n", &asked]).status.success());
    node
}

#[test]
fn a_leader_to_which_no_broker_speaks_keeps_the_living_and_lets_the_dead_go() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path());
    let addresses: Vec<_> = nodes.iter().map(Node::at).collect();
    let wires: Vec<_> = nodes.iter().map(|node| Wire::to(node.address)).collect();
    let through_wires: Vec<_> = wires.iter().map(|wire| wire.address.to_string()).collect();
    let _living = play(&addresses, "0", LIVING);
    let (killed, _silent) = (play(&addresses, "10", 1), play(&through_wires, "11", 1));
    until("every node has answered brokers", || wires.iter().all(Wire::was_used));
    until_there_are(&nodes, LIVING + 2);
    for id in ["4", "5"] {
        nodes.push(voter(id, &nodes[..3], dir.path()));
    }
    let newcomer_leads = || {
        until("the newcomer leads", || {
            run(&["transfer", "--to", "4", "-n", &addresses[0]]);
            status(&nodes[3])["leading"] == true
        });
    };
    newcomer_leads();
    stay_for(TIMEOUT * 3, &nodes, LIVING + 2);

    // It still does, but for an election on a busy machine.
    newcomer_leads();
    drop(killed);
    until_there_are(&nodes, LIVING + 1);
    wires.iter().for_each(|wire| wire.set(State::Silent));
    let cut = Instant::now();
    until_there_are(&nodes, LIVING);
    assert!(cut.elapsed() < TIMEOUT + MARGIN, "still there after {:?}", cut.elapsed());
    for node in &nodes {
        assert_eq!(removed(node), (1, 1), "expired, disconnected");
    }
    stay_for(TIMEOUT, &nodes, LIVING);
}
