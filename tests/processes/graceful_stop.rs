//! A node that gets SIGTERM while brokers and clients are busy with it.

use crate::client::{Client, registration, request};
use crate::process::{Play, cluster, cluster_with, leader, metric, until, until_there_are};
use raft_namesrv::wire::RemotingCommand;
use raft_namesrv::wire::codes::request as code;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The patience of a supervisor before it kills.
const STOP_MAX: Duration = Duration::from_secs(5);
/// Topic by which old brokers look for the members of their group.
const MEMBERS: &str = "rmq_sys_SYNC_BROKER_MEMBER_g";
const ADDRESS: &str = "10.0.0.1:10911";
/// Writes that are under way when the stop begins: one after the other, and there are two seconds for them.
const WRITES: usize = 10;

/// Look-ups by which a broker finds its own group.
fn group_look_ups() -> [RemotingCommand; 2] {
    [
        request(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", MEMBERS)]),
        request(code::GET_BROKER_MEMBER_GROUP, &[("clusterName", "C"), ("brokerName", "g")]),
    ]
}

/// Whether the group was shown. An empty one would make its broker believe that it is alone.
fn shows_group(answer: &RemotingCommand) -> bool {
    if answer.code == 1 {
        return false;
    }
    let body = String::from_utf8_lossy(&answer.body);
    assert!(answer.code == 0 && body.contains(ADDRESS), "code {}: {body}", answer.code);
    true
}

/// Looks the group up until the node is gone.
fn look_up_until_closed(mut client: Client) {
    loop {
        for ask in group_look_ups() {
            match client.ask(&ask) {
                Ok(answer) => drop(shows_group(&answer)),
                Err(_) => return,
            }
        }
    }
}

/// At a node that stays each look-up is answered, and writes are again and again.
fn go_on_until(ended: &AtomicBool, at: SocketAddr, key: &str) {
    let (mut client, mut wrote) = (Client::connect(at).unwrap(), false);
    for n in 0.. {
        for ask in group_look_ups() {
            assert!(shows_group(&client.ask(&ask).unwrap()), "not ready at {at}");
        }
        wrote = client.ask(&put(key, &n.to_string())).unwrap().code == 0;
        if wrote && ended.load(Ordering::Acquire) {
            break;
        }
    }
    assert!(wrote);
}

fn put(key: &str, value: &str) -> RemotingCommand {
    request(code::PUT_KV_CONFIG, &[("namespace", "n"), ("key", key), ("value", value)])
}

#[test]
fn a_leader_that_stops_under_load_answers_what_it_has_and_the_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path());
    let addresses: Vec<_> = nodes.iter().map(|node| node.at()).collect();
    let flags = ["--brokers", "20", "--topics", "50", "--period", "1", "--change-every-ms", "50"];
    let _play = Play::start(&addresses.join(","), &flags);
    let stops = nodes.remove(leader(&nodes));
    let mut of_broker = Client::connect(nodes[0].address).unwrap();
    of_broker.done(&registration("g", "0", ADDRESS, &[MEMBERS, "t"]));
    until_there_are(nodes.iter().chain([&stops]), 21);

    let (ended, at) = (AtomicBool::new(false), stops.address);
    let (mut writer, mut asker) = (Client::connect(at).unwrap(), Client::connect(at).unwrap());
    let writes: Vec<_> = (0..WRITES).map(|n| put(&format!("w{n}"), "v")).collect();
    assert!(shows_group(&asker.ask(&group_look_ups()[0]).unwrap()));
    std::thread::scope(|scope| {
        scope.spawn(|| look_up_until_closed(asker));
        for (at, key) in nodes.iter().map(|node| node.address).zip(["a", "b"]) {
            let ended = &ended;
            scope.spawn(move || go_on_until(ended, at, key));
        }
        for write in &writes {
            writer.send(write).unwrap();
        }
        let signalled = Instant::now();
        let (exit_code, took) = (stops.terminate(), signalled.elapsed());
        ended.store(true, Ordering::Release);
        assert_eq!(exit_code, 0);
        assert!(took < STOP_MAX, "it took {took:?}");
    });

    let answers: Vec<_> = std::iter::from_fn(|| writer.next().ok()).collect();
    assert_eq!(answers.len(), WRITES, "each that was under way is answered");
    // What was acknowledged stays.
    let done = |write: &&RemotingCommand| {
        answers.iter().any(|answer| answer.opaque == write.opaque && answer.code == 0)
    };
    for write in writes.iter().filter(done) {
        let fields = ["namespace", "key"].map(|field| (field, write.field(field).unwrap()));
        let ask = request(code::GET_KV_CONFIG, &fields);
        for node in &nodes {
            let mut client = Client::connect(node.address).unwrap();
            until("an acknowledged write is there", || client.ask(&ask).unwrap().code == 0);
        }
    }
}

/// Writes at a node that stays until one is done after the other has ended; gives the longest time without one.
fn longest_wait(ended: &AtomicBool, at: SocketAddr, key: &str) -> Duration {
    let mut client = Client::connect(at).unwrap();
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    loop {
        let is_last = ended.load(Ordering::Acquire);
        if client.ask(&put(key, "v")).unwrap().code == 0 {
            longest = longest.max(last.elapsed());
            last = Instant::now();
            if is_last {
                return longest;
            }
        }
    }
}

/// Another leader can still carry out the writes under way at it, and no client waits for an election: here the shortest
/// takes far longer than any write may.
#[test]
fn a_leader_that_stops_transfers_the_leadership_before_it_closes_connections() {
    const WAIT_MAX: Duration = Duration::from_secs(3);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("namesrv.conf");
    std::fs::write(&file, "electionTimeoutMinMillis=8000\nelectionTimeoutMaxMillis=12000\n").unwrap();
    let mut nodes = cluster_with(dir.path(), &["-c", file.to_str().unwrap()]);
    let stops = nodes.remove(leader(&nodes));
    // Answered only when its time is over: until then the node keeps the connection.
    let waits_for_ever = [("topic", "t"), ("__MIN_REVISION", "1000000")];
    let mut under_way = Client::connect(stops.address).unwrap();
    under_way.send(&request(code::GET_ROUTEINFO_BY_TOPIC, &waits_for_ever)).unwrap();
    // Sent after it.
    under_way.done(&request(code::GET_BROKER_CLUSTER_INFO, &[]));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writing = ["a", "b"].map(|key| {
            let (at, ended) = (nodes[usize::from(key == "b")].address, &ended);
            scope.spawn(move || longest_wait(ended, at, key))
        });
        stops.send_sigterm();
        until("another leads", || {
            nodes.iter().any(|node| metric::<u64>(node, "rocketmq_namesrv_leading") == 1)
        });
        let was_under_way = under_way.is_quiet();
        let (exit_code, log) = stops.ended();
        ended.store(true, Ordering::Release);
        assert!(was_under_way, "it led until its connections were closed: {log:#?}");
        assert_eq!(exit_code, 0, "{log:#?}");
        let waited = writing.map(|writing| writing.join().unwrap());
        assert!(waited.iter().all(|waited| *waited < WAIT_MAX), "{waited:?}");
        println!("the longest waits for a write while the leader stopped: {waited:?}");
    });
}
