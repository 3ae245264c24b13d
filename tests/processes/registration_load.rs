//! Many brokers with thousands of topics register at once: that takes its time, but it costs nobody the leader.

use crate::client::{Client, registration};
use crate::process::{PATIENCE, cluster, leader, metric, until_there_are};
use std::thread;
use std::time::Instant;

const BROKERS: usize = 120;
const TOPICS: usize = 5_000;

#[test]
fn large_registrations_at_once_cause_no_election() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = cluster(dir.path());
    let leads = leader(&nodes);
    let term = |node| metric::<u64>(node, "rocketmq_namesrv_raft_term");
    let before = term(&nodes[leads]);

    let topics: Vec<String> = (0..TOPICS).map(|number| format!("topic-{number}")).collect();
    let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
    let begun = Instant::now();
    // The connections stay: a broker that disconnects is removed.
    let addresses: Vec<_> = nodes.iter().map(|node| node.address).collect();
    let brokers: Vec<Client> = thread::scope(|scope| {
        let (topics, addresses) = (&topics, &addresses);
        let register = move |number: usize| {
            let mut client = Client::connect(addresses[number % addresses.len()]).unwrap();
            let request = registration(&format!("b{number}"), "0", &format!("10.0.0.{number}:10911"), topics);
            while client.ask(&request).unwrap().code != 0 {
                assert!(begun.elapsed() < PATIENCE, "broker {number} is not registered");
            }
            client
        };
        let registering: Vec<_> = (1..=BROKERS).map(|number| scope.spawn(move || register(number))).collect();
        registering.into_iter().map(|broker| broker.join().unwrap()).collect()
    });
    println!("{} brokers with {TOPICS} topics each in {:?}", brokers.len(), begun.elapsed());
    until_there_are(&nodes, BROKERS);
    for node in &nodes {
        assert_eq!(term(node), before, "an election");
    }
}
