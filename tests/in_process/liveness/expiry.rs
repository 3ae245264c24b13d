//! Expiry: which idle time is too long, and which brokers must not count as idle.

use super::{
    assert_expired, assert_stays, broker, gone, registered, registered_everywhere, removals, until,
    while_beating,
};
use crate::client::{Broker, Client, request};
use crate::nodes::{self, Node};
use raft_namesrv::wire::codes::request as code;
use serde_json::json;
use std::time::Duration;
use storage::route_info::BrokerKey;
use tokio::time::Instant;

/// Beyond a broker's own timeout, for a busy machine: what a majority could not hear of each other is left out of silences.
const MARGIN: Duration = Duration::from_secs(8);

/// Until when a broker that says nothing since then must be gone.
fn time_of(silent: &Broker) -> Duration {
    Duration::from_millis(u64::try_from(silent.timeout_ms.unwrap()).unwrap()) + MARGIN
}

/// Waits until no node routes to a broker that says nothing since then, and that it did not take long.
async fn gone_in_time(nodes: &[Node], silent: &Broker, since: Instant) {
    gone(nodes, silent).await;
    let took = since.elapsed();
    assert!(took < time_of(silent), "{} was there for {took:?}", silent.name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_broker_goes_and_its_connections_are_closed() {
    let nodes = nodes::cluster(3).await;
    let silent = broker("silent", 1_500);
    let begun = Instant::now();
    let mut connections = registered_everywhere(&nodes, &silent).await;
    let registered = Instant::now();
    assert_stays(&nodes, &silent).await;
    gone_in_time(&nodes, &silent, registered).await;
    assert!(begun.elapsed() >= Duration::from_millis(1_500));
    for (node, connection) in nodes.iter().zip(&mut connections) {
        assert_expired(node, &silent);
        assert!(connection.is_closed().await);
    }
    for node in nodes {
        node.stop().await;
    }
}

/// A slave that may act for its master does so by the master's own timeout, and until the master is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_slave_of_a_silent_master_stands_in_for_it_at_every_node() {
    let nodes = nodes::cluster(3).await;
    let change = request(code::UPDATE_NAMESRV_CONFIG, &[]).with_body(b"supportActingMaster=true".to_vec());
    Client::connect(nodes[0].address()).await.done(&change).await;
    let acting = |broker: &Broker| broker.register().with("enableActingMaster", "true");
    let master = broker("g", 3_000);
    let slave = Broker { id: 1, address: "slave.test:10911".into(), timeout_ms: None, ..master.clone() };
    let mut connections = Vec::new();
    for (node, broker) in nodes.iter().flat_map(|node| [(node, &master), (node, &slave)]) {
        connections.push(Client::connect(node.address()).await);
        connections.last_mut().unwrap().done(&acting(broker)).await;
    }
    let silent_since = Instant::now();
    let shown = async |node: &Node| {
        let route = Client::connect(node.address()).await.route("g_t0").await.unwrap();
        (route["queueDatas"][0]["perm"].clone(), route["brokerDatas"][0]["brokerAddrs"].clone())
    };
    let both = (json!(6), json!({"0": master.address, "1": slave.address}));
    let stands_in = (json!(4), json!({"0": slave.address}));
    for after in [&stands_in, &both] {
        if after == &both {
            // With the version that it had.
            let back = Broker { timeout_ms: None, ..master.clone() };
            connections.push(Client::connect(nodes[1].address()).await);
            connections.last_mut().unwrap().done(&acting(&back)).await;
        }
        for node in &nodes {
            until("the route of the group follows", async || shown(node).await == *after).await;
        }
        if after == &stands_in {
            let took = silent_since.elapsed();
            assert!(took < time_of(&master), "its master was there for {took:?}");
        }
    }
    for node in &nodes {
        assert_expired(node, &master);
    }
    for node in nodes {
        node.stop().await;
    }
}

/// Two silent brokers, one after the other, show that the time has passed twice.
async fn two_timeouts_pass(nodes: &[Node], timeout_ms: i64) {
    for name in ["silent1", "silent2"] {
        let silent = broker(name, timeout_ms);
        let _connection = registered(&nodes[0], &silent).await;
        gone_in_time(nodes, &silent, Instant::now()).await;
        assert_expired(&nodes[0], &silent);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_through_any_node_keep_a_broker() {
    let nodes = nodes::cluster(3).await;
    let leader = nodes::leader(&nodes).await;
    let (one, two) = ((leader + 1) % 3, (leader + 2) % 3);
    let brokers = [broker("beats", 3_000), broker("asks", 3_000), broker("asks-leader", 3_000)];
    let mut silent = Vec::new();
    for (broker, at) in brokers.iter().zip([one, leader, two]) {
        silent.push(registered(&nodes[at], broker).await);
    }
    let mut other = [
        Client::connect(nodes[two].address()).await,
        Client::connect(nodes[one].address()).await,
        Client::connect(nodes[leader].address()).await,
    ];
    let [a, b, c] = &mut other;
    let mut beats = [
        (a, brokers[0].heartbeat().oneway()),
        (b, brokers[1].query_data_version().oneway()),
        (c, brokers[2].query_data_version().oneway()),
    ];
    while_beating(&mut beats, two_timeouts_pass(&nodes, 3_000)).await;
    let silent_since = Instant::now();
    for broker in &brokers {
        assert_stays(&nodes, broker).await;
    }
    for (broker, connection) in brokers.iter().zip(silent.iter_mut().chain(&mut other).collect::<Vec<_>>()) {
        gone_in_time(&nodes, broker, silent_since).await;
        assert_expired(&nodes[leader], broker);
        assert!(connection.is_closed().await, "the connection that it registered over");
    }
    for connection in &mut other {
        assert!(connection.is_closed().await, "the connection that it sent heartbeats over");
    }
    for node in nodes {
        node.stop().await;
    }
}

/// Each change of leader leaves a lease the grace, which is the whole timeout of a broker with a short one, and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_that_change_keep_a_silent_broker_for_one_grace_and_lose_no_living_one() {
    const CHANGES: usize = 4;
    let nodes = nodes::cluster(3).await;
    let (silent, living) = (broker("silent", 4_000), broker("living", 4_000));
    let _silent = registered(&nodes[0], &silent).await;
    let _living = registered(&nodes[1], &living).await;
    let mut beats_over = Client::connect(nodes[2].address()).await;
    let mut terms = std::collections::BTreeSet::new();
    let work = async {
        while terms.len() <= CHANGES {
            let leader = nodes::leader(&nodes).await;
            terms.insert(nodes[leader].running.node.status().leadership.term);
            // Refused while the one before is not over.
            let _ = nodes[leader].running.node.transfer(None, Instant::now() + Duration::from_secs(1)).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        gone_in_time(&nodes, &silent, Instant::now()).await;
    };
    while_beating(&mut [(&mut beats_over, living.heartbeat().oneway())], work).await;
    assert_expired(&nodes[0], &silent);
    assert!(removals(&nodes[0], &living).is_empty());
    assert_stays(&nodes, &living).await;
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_stops_neither_keeps_the_silent_nor_loses_the_living() {
    without_the_former_leader(async |former, _| drop(former.stop().await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_dies_neither_keeps_the_silent_nor_loses_the_living() {
    without_the_former_leader(async |former, others| {
        let (_dead, leaderless) = nodes::kill_leader(former, others).await;
        nodes::was_elected(leaderless).await;
    })
    .await;
}

async fn without_the_former_leader(end: impl AsyncFnOnce(Node, &[Node])) {
    let mut nodes = nodes::cluster(3).await;
    let former = nodes.remove(nodes::leader(&nodes).await);
    let (silent, living) = (broker("silent", 3_000), broker("living", 3_000));
    let _silent = registered(&nodes[0], &silent).await;
    let silent_since = Instant::now();
    // The living one is known to the former leader only, and speaks to another node from then on.
    let _living = registered(&former, &living).await;
    let mut beats_over = Client::connect(nodes[1].address()).await;
    let mut beats = [(&mut beats_over, living.query_data_version().oneway())];
    let work = async {
        end(former, &nodes).await;
        gone_in_time(&nodes, &silent, silent_since).await;
        two_timeouts_pass(&nodes, 3_000).await;
    };
    while_beating(&mut beats, work).await;
    assert_expired(&nodes[0], &silent);
    assert!(removals(&nodes[0], &living).is_empty());
    assert_stays(&nodes, &living).await;
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_of_all_nodes_every_broker_has_its_full_time() {
    let nodes = nodes::cluster(3).await;
    let (returning, lost) = (broker("returning", 4_000), broker("lost", 4_000));
    let connections =
        [registered_everywhere(&nodes, &returning).await, registered_everywhere(&nodes, &lost).await];
    nodes::same_revision(&nodes).await;
    let mut stopped = Vec::new();
    for stopping in futures_util::future::join_all(nodes.into_iter().map(Node::stop)).await {
        stopped.push(stopping);
    }
    drop(connections);
    let begun = Instant::now();
    let nodes = futures_util::future::join_all(stopped.into_iter().map(|node| node.start())).await;
    for node in &nodes {
        node.ready().await;
    }
    let ready = Instant::now();
    let key = BrokerKey { cluster: "C".into(), address: returning.address.clone().into() };
    until("half the timeout", async || {
        nodes.iter().any(|node| node.running.liveness.idle_ms(&key).is_some_and(|ms| ms >= 2_000))
    })
    .await;
    let _back = registered_everywhere(&nodes, &returning).await;
    gone_in_time(&nodes, &lost, ready).await;
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?} after the start", begun.elapsed());
    for node in &nodes {
        assert_expired(node, &lost);
        assert!(removals(node, &returning).is_empty());
    }
    assert_stays(&nodes, &returning).await;
    for node in nodes {
        node.stop().await;
    }
}
