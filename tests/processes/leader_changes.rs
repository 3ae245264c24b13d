//! Leaders that die or transfer the leadership, while brokers live on or die.

use crate::client::{Client, registration};
use crate::process::{
    Node, Play, all_ready, brokers, cluster, leader, removed, run, stay_for, until, until_there_are,
    why_removed,
};
use crate::tcp_proxy::{State, TcpProxy};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Kills the leader and starts it again once another leads; gives when it was killed.
fn kill_leader(nodes: &mut Vec<Node>) -> Instant {
    let killed = nodes.remove(leader(nodes)).kill();
    let at = Instant::now();
    leader(nodes);
    // The next kill needs a majority that stays.
    nodes.push(killed.start());
    at
}

#[test]
fn two_leaders_killed_one_after_the_other_take_no_broker_with_them() {
    const TIMEOUT: Duration = Duration::from_secs(10);
    /// Between the two kills: the second leader leads for moments only.
    const BETWEEN_MAX: Duration = Duration::from_secs(5);
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
        last - before < BETWEEN_MAX
    });
    assert!(two_close, "of {KILLS_MAX} kills no two came within {BETWEEN_MAX:?}");
    all_ready(&nodes);
    stay_for((TIMEOUT * 2).saturating_sub(last.elapsed()), &nodes, 6);
    for node in &nodes {
        assert_eq!(removed(node), (0, 0), "expired, disconnected");
    }
}

/// The broker hangs: its connections stay open, and it makes no new one to a node that restarts. Each new leader leaves it
/// the grace, not its whole timeout.
#[test]
fn a_broker_that_hangs_while_leaders_are_killed_is_gone_one_grace_after_the_last_kill() {
    const TIMEOUT: Duration = Duration::from_secs(24);
    const GRACE: Duration = Duration::from_secs(10);
    const KILLS: usize = 4;
    /// From one kill to the next.
    const EVERY: Duration = Duration::from_millis(2_500);
    /// For a busy machine: time in which no leader was reached does not count as idle.
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
    let hangs_since = Instant::now();
    until_there_are(&nodes, 2);
    let (mut down, mut last) = (Duration::ZERO, hangs_since);
    for _ in 0..KILLS {
        last = kill_leader(&mut nodes);
        all_ready(&nodes);
        // No time counts in which no node led.
        down += last.elapsed();
        until("the next kill is due", || last.elapsed() > EVERY);
    }
    let latest = (last - hangs_since + GRACE).max(TIMEOUT) + down + MARGIN;
    // The first in the list was not killed last.
    while brokers(&nodes[0].at()).iter().any(|broker| broker == HANGS) {
        let took = hangs_since.elapsed();
        assert!(took < latest, "still there after {took:?}, the last kill was at {:?}", last - hangs_since);
    }
    let took = hangs_since.elapsed();
    println!("a broker with a timeout of {TIMEOUT:?} was gone after {took:?}, {KILLS} kills, {down:?} down");
    until_there_are(&nodes, 1);
    for node in &nodes {
        let why = why_removed(node, HANGS);
        assert!(why.len() == 1 && why[0].contains("idle for"), "{why:?}");
        assert_eq!(why_removed(node, "127.0.0.1:30000"), [""; 0], "it sends heartbeats");
    }
}

/// Leaders that change keep it for a grace after the last change, and not for ever.
#[test]
fn a_broker_without_heartbeats_expires_in_time_after_leaders_changed() {
    const TIMEOUT: Duration = Duration::from_secs(4);
    /// For a busy machine: time in which no leader was reached does not count as idle.
    const MARGIN: Duration = Duration::from_secs(8);
    let dir = tempfile::tempdir().unwrap();
    let nodes = cluster(dir.path());
    let proxies: Vec<_> = nodes.iter().map(|node| TcpProxy::to(node.address)).collect();
    let direct: Vec<_> = nodes.iter().map(|node| node.at()).collect();
    let through_proxies: Vec<_> = proxies.iter().map(|proxy| proxy.address.to_string()).collect();
    let play = |at, first| Play::with_timeout(at, 1, TIMEOUT, &["--period", "1", "--first", first]);
    let (_living, _blocked) = (play(&direct, "0"), play(&through_proxies, "1"));
    until("every node has answered brokers", || proxies.iter().all(TcpProxy::was_used));
    until_there_are(&nodes, 2);
    proxies.iter().for_each(|proxy| proxy.set(State::Blocked));
    let blocked = Instant::now();
    let mut leaders = BTreeSet::new();
    while leaders.len() < 3 {
        let leads = leader(&nodes);
        leaders.insert(leads);
        let others: Vec<_> = (0..nodes.len()).filter(|node| !leaders.contains(node)).collect();
        let Some(next) = others.first() else { break };
        // Refused while the transfer before is under way.
        run(&["transfer", "--to", &(next + 1).to_string(), "-n", &direct[leads]]);
    }
    let last = Instant::now();
    while brokers(&direct[0]).len() == 2 {
        assert!(last.elapsed() < TIMEOUT + MARGIN, "still there after {:?}", blocked.elapsed());
    }
    let took = blocked.elapsed();
    assert!(took > TIMEOUT - Duration::from_secs(2), "it sent a heartbeat a second ago: {took:?}");
    until_there_are(&nodes, 1);
    for node in &nodes {
        assert_eq!(brokers(&node.at()), ["127.0.0.1:30000"]);
        assert_eq!(removed(node), (1, 0), "expired, disconnected");
    }
}

/// One host with a broker and the leader dies: the broker was known to all nodes, and its end to those that stay.
#[test]
fn a_broker_and_the_leader_that_die_together_are_gone_in_seconds() {
    const GONE_WITHIN: Duration = Duration::from_secs(5);
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path());
    let addresses: Vec<_> = nodes.iter().map(|node| node.at()).collect();
    let _living = Play::with_timeout(&addresses, 1, Duration::from_secs(120), &["--period", "5"]);
    let dies =
        Play::with_timeout(&addresses, 1, Duration::from_secs(120), &["--period", "5", "--first", "1"]);
    until_there_are(&nodes, 2);
    let leads = leader(&nodes);
    let killed = nodes.remove(leads).kill();
    drop(dies);
    let died = Instant::now();
    until("the broker is gone from the survivors", || {
        nodes.iter().all(|node| brokers(&node.at()) == ["127.0.0.1:30000"])
    });
    let took = died.elapsed();
    println!("a broker that died with the leader was gone after {took:?}");
    assert!(took < GONE_WITHIN, "{took:?}");
    nodes.push(killed.start());
    until_there_are(&nodes, 1);
}
