//! Leaders that die or change, while brokers live on or do not.

use crate::client::{Client, registration};
use crate::process::{
    Node, Play, all_ready, brokers, cluster, leader, removed, run, stay_for, until, until_there_are,
    why_removed,
};
use crate::wire::{State, Wire};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Kills the leader and starts it again once another leads; gives when it was killed.
fn kill_leader(nodes: &mut Vec<Node>) -> Instant {
    let killed = nodes.remove(leader(nodes)).kill();
    let at = Instant::now();
    leader(nodes);
    // The next to die needs a majority behind it.
    nodes.push(killed.start());
    at
}

#[test]
fn two_leaders_killed_one_after_the_other_take_no_broker_with_them() {
    const TIMEOUT: Duration = Duration::from_secs(10);
    /// Between the two kills: the second leader has hardly begun.
    const APART_MAX: Duration = Duration::from_secs(5);
    /// On a busy machine a leader may take longer to come: then the next pair counts.
    const KILLS_MAX: usize = 8;
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path());
    let addresses: Vec<_> = nodes.iter().map(|node| node.at()).collect();
    let _play = Play::with_timeout(&addresses, 6, TIMEOUT, &["--period", "5"]);
    until_there_are(&nodes, 6);
    let mut last = kill_leader(&mut nodes);
    let two_close = (1..KILLS_MAX).any(|_| {
        let before = std::mem::replace(&mut last, kill_leader(&mut nodes));
        last - before < APART_MAX
    });
    assert!(two_close, "of {KILLS_MAX} kills no two came within {APART_MAX:?}");
    all_ready(&nodes);
    stay_for((TIMEOUT * 2).saturating_sub(last.elapsed()), &nodes, 6);
    for node in &nodes {
        assert_eq!(removed(node), (0, 0), "expired, disconnected");
    }
}

/// It hangs: its connections stay open, and it makes no new one to a node that was away.
#[test]
fn a_broker_that_hangs_while_leaders_are_killed_all_the_time_is_gone_in_time() {
    const TIMEOUT: Duration = Duration::from_secs(10);
    /// From one kill to the next.
    const EVERY: Duration = Duration::from_millis(2_500);
    /// For a busy machine: what a majority could not hear of each other is left out of silences.
    const MARGIN: Duration = Duration::from_secs(8);
    const HANGS: &str = "10.0.0.1:10911";
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path());
    let addresses: Vec<_> = nodes.iter().map(|node| node.at()).collect();
    let _living = Play::with_timeout(&addresses, 1, TIMEOUT, &["--period", "1"]);
    let mut hanging: Vec<_> = nodes.iter().map(|node| Client::connect(node.address).unwrap()).collect();
    let timeout_ms = TIMEOUT.as_millis().to_string();
    let register =
        registration("hangs", "0", HANGS, &["t0", "t1"]).with("heartbeatTimeoutMillis", &timeout_ms);
    hanging.iter_mut().for_each(|connection| drop(connection.done(&register)));
    let silent = Instant::now();
    until_there_are(&nodes, 2);
    let (mut kills, mut down) = (0, Duration::ZERO);
    // The first is a node that was not killed just now.
    while brokers(&nodes[0].at()).iter().any(|broker| broker == HANGS) {
        let killed = kill_leader(&mut nodes);
        kills += 1;
        all_ready(&nodes);
        // What a node was down for may be left out, since it may have heard the broker last.
        down += killed.elapsed();
        let took = silent.elapsed();
        assert!(
            took < TIMEOUT + down + MARGIN,
            "still there after {took:?} and {kills} kills, down {down:?}"
        );
        until("the next is due", || killed.elapsed() > EVERY);
    }
    let took = silent.elapsed();
    println!("a broker with a timeout of {TIMEOUT:?} was gone after {took:?}, {kills} kills, {down:?} down");
    assert!(kills >= 3, "{kills} kills");
    until_there_are(&nodes, 1);
    for node in &nodes {
        let why = why_removed(node, HANGS);
        assert!(why.len() == 1 && why[0].contains("idle for 1"), "{why:?}");
        assert_eq!(why_removed(node, "127.0.0.1:30000"), [""; 0], "it speaks");
    }
}

/// Were a change of leader worth a timeout of grace, it would never go.
#[test]
fn a_broker_that_falls_silent_while_leaders_change_is_gone_in_time() {
    const TIMEOUT: Duration = Duration::from_secs(4);
    /// For a busy machine: what a majority could not hear of each other is left out of silences.
    const MARGIN: Duration = Duration::from_secs(8);
    let dir = tempfile::tempdir().unwrap();
    let nodes = cluster(dir.path());
    let wires: Vec<_> = nodes.iter().map(|node| Wire::to(node.address)).collect();
    let direct: Vec<_> = nodes.iter().map(|node| node.at()).collect();
    let through_wires: Vec<_> = wires.iter().map(|wire| wire.address.to_string()).collect();
    let play = |at, first| Play::with_timeout(at, 1, TIMEOUT, &["--period", "1", "--first", first]);
    let (_living, _silent) = (play(&direct, "0"), play(&through_wires, "1"));
    until("every node has answered brokers", || wires.iter().all(Wire::was_used));
    until_there_are(&nodes, 2);
    wires.iter().for_each(|wire| wire.set(State::Silent));
    let cut = Instant::now();
    let mut leaders = BTreeSet::new();
    while brokers(&direct[0]).len() == 2 {
        assert!(cut.elapsed() < TIMEOUT + MARGIN, "still there after {:?}", cut.elapsed());
        let leads = leader(&nodes);
        // Refused while the one before is not over.
        run(&["transfer", "-n", &direct[leads]]);
        leaders.insert(leads);
    }
    let took = cut.elapsed();
    assert!(took > TIMEOUT - Duration::from_secs(2), "it last beat a second ago: {took:?}");
    assert!(leaders.len() > 1, "{leaders:?}");
    until_there_are(&nodes, 1);
    for node in &nodes {
        assert_eq!(brokers(&node.at()), ["127.0.0.1:30000"]);
        assert_eq!(removed(node), (1, 0), "expired, disconnected");
    }
}
