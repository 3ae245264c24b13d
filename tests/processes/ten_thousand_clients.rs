//! Ten thousand clients at one follower: clients do not spread themselves over the nodes.

use crate::client::{Client, registration, request};
use crate::process::{cluster, leader, metric, until_there_are};
use raft_namesrv::wire::codes::request as code;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Write;
use std::time::{Duration, Instant};

const CLIENTS: usize = 10_000;
/// Clients poll their routes every 30 s: each of so many must have its answer in a fraction of it.
const ROUND_MAX: Duration = Duration::from_secs(15);

/// Files that everything else in this process has open, other tests among it.
const OTHER_FILES: u64 = 2_000;

/// Lets this process and the nodes that it starts open as many files as they may. `false`: those are too few.
fn raise_open_files() -> bool {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    limit.maximum.is_none_or(|maximum| maximum >= CLIENTS as u64 + OTHER_FILES)
}

/// `cargo test --test processes ten_thousand -- --nocapture` prints what it costs.
#[test]
fn ten_thousand_clients_at_one_follower_are_answered() {
    if !raise_open_files() {
        // To stderr: the test runner hides the stdout of tests that pass.
        writeln!(
            std::io::stderr(),
            "SKIPPED ten_thousand_clients_at_one_follower_are_answered: it needs {} open files, see `ulimit -Hn`",
            CLIENTS as u64 + OTHER_FILES
        )
        .unwrap();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let nodes = cluster(dir.path());
    let leads = leader(&nodes);
    let follower = &nodes[(leads + 1) % 3];
    let mut broker = Client::connect(nodes[leads].address).unwrap();
    broker.done(&registration("g", "0", "10.0.0.1:10911", &["t0", "t1"]));
    until_there_are(&nodes, 1);

    let before = follower.resident_kib();
    let begun = Instant::now();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| Client::connect(follower.address).unwrap()).collect();
    println!("{CLIENTS} connections in {:?}", begun.elapsed());
    for round in 0..3 {
        let (begun, mut slowest) = (Instant::now(), Duration::ZERO);
        for client in &mut clients {
            let sent = Instant::now();
            client.done(&request(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", "t0")]));
            slowest = slowest.max(sent.elapsed());
        }
        let took = begun.elapsed();
        println!("round {round}: {took:?}, the slowest answer after {slowest:?}");
        assert!(took < ROUND_MAX, "{took:?}");
        broker.done(&registration("g", "0", "10.0.0.1:10911", &["t0", "t1"]));
    }
    assert!(metric::<usize>(follower, "rocketmq_namesrv_connections_open") >= CLIENTS);
    let after = follower.resident_kib();
    let each = (after - before) * 1024 / CLIENTS;
    println!("resident: {before} KiB before, {after} KiB with them, {each} bytes each");
    assert!(each < 16 << 10, "{each} bytes for a connection");
    assert_eq!(leader(&nodes), leads, "it led all the time");
}
