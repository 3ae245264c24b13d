//! Reads: which nodes answer look-ups, and how stale the answers may be.

use super::client::{Broker, Client, request};
use super::nodes::{self, Node, PATIENCE};
use raft_namesrv::wire::codes::request as code;
use std::time::Duration;
use tokio::time::Instant;

const NOT_READY: Option<&str> = Some("name server not ready");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_at_least_at_a_revision_sees_what_was_written_at_another_node() {
    let nodes = nodes::cluster(3).await;
    let mut writer = Client::connect(nodes[0].address()).await;
    for n in 0..20 {
        let value = n.to_string();
        let put = request(
            code::PUT_KV_CONFIG,
            &[("namespace", "n"), ("key", "k"), ("value", &value), ("__READ_MODE", "local")],
        );
        let answer = writer.done(&put).await;
        let revision = answer.field("__REVISION").expect("a write tells its revision when asked").to_owned();
        for (at, node) in nodes.iter().enumerate() {
            let mut reader = Client::connect(node.address()).await;
            let key = [("namespace", "n"), ("key", "k")];
            let at_least = request(code::GET_KV_CONFIG, &[key[0], key[1], ("__MIN_REVISION", &revision)]);
            let answer = reader.done(&at_least).await;
            assert_eq!(answer.field("value"), Some(&*value), "node {at}");
            assert!(answer.field("__REVISION").unwrap().parse::<u64>().unwrap() >= revision.parse().unwrap());
            let linearizable =
                request(code::GET_KV_CONFIG, &[key[0], key[1], ("__READ_MODE", "linearizable")]);
            assert_eq!(reader.done(&linearizable).await.field("value"), Some(&*value), "node {at}");
        }
    }
    let plain = writer.done(&request(code::GET_KV_CONFIG, &[("namespace", "n"), ("key", "k")])).await;
    assert_eq!(plain.field("__REVISION"), None, "nothing that Java does not send, unless asked");
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revision_that_is_not_reached_is_an_error_in_time() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let begun = Instant::now();
    let far = request(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", "t"), ("__MIN_REVISION", "1000000")]);
    let answer = client.ask(&far).await;
    assert_eq!(answer.code, 1, "never TOPIC_NOT_EXIST from a table that is too old");
    assert!((2_000..3_000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_node_without_a_leader_is_not_ready_and_then_serves_what_it_has() {
    let mut nodes = nodes::cluster_with(3, |config| {
        config.service.readiness.recovery_wait = Some(Duration::from_secs(2));
    })
    .await;
    let broker = Broker::new("b", 3);
    let mut client = Client::connect(nodes[0].address()).await;
    client.done(&broker.register()).await;
    nodes::same_revision(&nodes).await;
    let mut stopped = Vec::new();
    while let Some(node) = nodes.pop() {
        stopped.push(node.stop().await);
    }
    let node = stopped.pop().unwrap().start().await;
    let begun = Instant::now();
    let mut client = Client::connect(node.address()).await;
    for look_up in [
        request(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", "b_t0")]),
        request(code::GET_BROKER_CLUSTER_INFO, &[]),
        request(code::GET_ALL_TOPIC_LIST_FROM_NAMESERVER, &[]),
        broker.query_data_version(),
    ] {
        let answer = client.ask(&look_up).await;
        assert_eq!((answer.code, answer.remark.as_deref()), (1, NOT_READY), "code {}", look_up.code);
    }
    loop {
        match client.route("b_t0").await {
            Ok(_) => break,
            Err(code) => assert_eq!(code, 1),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(begun.elapsed() >= Duration::from_millis(500), "it waited for a leader first");
    assert_eq!(*node.running.service.ready().borrow(), raft_namesrv::service::Ready::Stale);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_look_ups_go_on_and_writes_are_errors_in_time() {
    let mut nodes = nodes::cluster(3).await;
    let mut client = Client::connect(nodes[0].address()).await;
    let broker = Broker::new("b", 3);
    client.done(&broker.register()).await;
    nodes::same_revision(&nodes).await;
    let others = nodes.split_off(1);
    for node in others {
        node.stop().await;
    }
    let begun = Instant::now();
    let answer = client.ask(&broker.unregister()).await;
    assert_ne!(answer.code, 0, "never success before commit");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert!(client.route("b_t0").await.is_ok());
    nodes.remove(0).stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_node_takes_no_brokers_with_it_and_a_closing_broker_is_gone_everywhere() {
    let mut nodes = nodes::cluster(3).await;
    let mut broker_connection = Client::connect(nodes[0].address()).await;
    let broker = Broker::new("b", 3);
    broker_connection.done(&broker.register()).await;
    nodes::same_revision(&nodes).await;
    nodes.remove(0).stop().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut client = Client::connect(nodes[0].address()).await;
    assert!(client.route("b_t0").await.is_ok(), "its node stopped, the broker did not");

    let mut other_node = Client::connect(nodes[1].address()).await;
    other_node.done(&broker.register()).await;
    drop(other_node);
    let begun = Instant::now();
    while client.route("b_t0").await != Err(17) {
        assert!(begun.elapsed() < nodes::PATIENCE, "the broker closed its connection and is still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_waits_for_its_cluster_answers_no_look_up_and_takes_no_write() {
    let nodes = nodes::some_of(3, 1).await;
    let mut client = Client::connect(nodes[0].address()).await;
    let broker = Broker::new("b", 3);
    for look_up in [
        request(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", "t")]),
        request(code::GET_TOPICS_BY_CLUSTER, &[("cluster", "c")]),
        request(code::GET_BROKER_MEMBER_GROUP, &[("brokerName", "b")]),
        request(code::GET_NAMESRV_CONFIG, &[]),
        broker.query_data_version(),
    ] {
        let answer = client.ask(&look_up).await;
        assert_eq!((answer.code, answer.remark.as_deref()), (1, NOT_READY), "code {}", look_up.code);
    }
    let begun = Instant::now();
    let put = request(code::PUT_KV_CONFIG, &[("namespace", "n"), ("key", "k"), ("value", "v")]);
    assert_eq!(client.ask(&put).await.code, 1);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_set_to_linearizable_reads_answers_none_without_a_quorum() {
    let mut nodes = nodes::cluster_with(3, |config| {
        config.service.read_mode = raft_namesrv::protocol::ReadMode::Linearizable;
    })
    .await;
    let mut client = Client::connect(nodes[0].address()).await;
    client.done(&Broker::new("b", 3).register()).await;
    assert!(client.route("b_t0").await.is_ok());
    for node in nodes.split_off(1) {
        node.stop().await;
    }
    assert_eq!(client.route("b_t0").await, Err(1));
    let local = request(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", "b_t0"), ("__READ_MODE", "local")]);
    assert_eq!(client.ask(&local).await.code, 0, "unless a request asks for less");
    nodes.remove(0).stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_list_is_whole() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    client.done(&Broker::new("b", 6_000).register()).await;
    let answer = client.done(&request(code::GET_ALL_TOPIC_LIST_FROM_NAMESERVER, &[])).await;
    let topics = super::client::json_of(&answer)["topicList"].as_array().unwrap().len();
    assert_eq!(topics, 6_000);
    node.stop().await;
}

/// How often a node is started again.
const ROUNDS: usize = 100;
/// Environment variable of the process that does it.
const ALONE: &str = "STARTS_AGAIN_ALONE";

/// Start and stop many times on the same ports and directory: nothing is left behind, nothing is lost. In a process of
/// its own, whose files and threads are those of the node and this test.
#[test]
fn a_node_starts_again_on_its_ports_and_directory_with_all_it_had() {
    if std::env::var_os(ALONE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        return runtime.unwrap().block_on(start_again_and_again());
    }
    let me = "reads::a_node_starts_again_on_its_ports_and_directory_with_all_it_had";
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    let alone = alone.args([me, "--exact", "--nocapture"]).env(ALONE, "1").output().unwrap();
    let stdout = String::from_utf8_lossy(&alone.stdout);
    let failed = String::from_utf8_lossy(&alone.stderr);
    assert!(alone.status.success() && stdout.contains("1 passed"), "{stdout}\n{failed}");
}

async fn start_again_and_again() {
    let mut node = Node::alone().await;
    let mut at_first = None;
    for round in 0..ROUNDS {
        let mut client = Client::connect(node.address()).await;
        let value = round.to_string();
        client
            .done(&request(code::PUT_KV_CONFIG, &[("namespace", "n"), ("key", &value), ("value", &value)]))
            .await;
        drop(client);
        node = node.stop().await.start().await;
        node.ready().await;
        let mut client = Client::connect(node.address()).await;
        for before in 0..=round {
            let key = before.to_string();
            let get = request(code::GET_KV_CONFIG, &[("namespace", "n"), ("key", &key)]);
            assert_eq!(client.done(&get).await.field("value"), Some(&*key), "round {round}");
        }
        at_first.get_or_insert_with(files_and_threads);
    }
    let (files, threads) = at_first.unwrap();
    let begun = Instant::now();
    // Other tasks may take a moment to end; tokio decides how many threads wait for blocking work.
    loop {
        let (files_now, threads_now) = files_and_threads();
        if files_now <= files && threads_now <= threads + ROUNDS / 10 {
            break;
        }
        let grown = format!("{files_now} files after {files}, {threads_now} threads after {threads}");
        assert!(begun.elapsed() < PATIENCE, "{grown}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    node.stop().await;
}

/// How many of each this process has.
fn files_and_threads() -> (usize, usize) {
    let count = |what| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    (count("fd"), count("task"))
}
