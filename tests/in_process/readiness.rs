//! Readiness: whether a node may answer look-ups, in each of its states. `/livez` is another question.

use super::client::{Broker, Client, bytes_of, request};
use super::liveness::{assert_stays, let_another_pass};
use super::nodes::{self, Node, PATIENCE, Stopped};
use raft::{MemberChange, Phase, SnapshotPolicy};
use raft_namesrv::service::Ready;
use raft_namesrv::wire::codes::request as code;
use std::time::Duration;
use storage::command::{Change, Command, Origin, PutKv};
use storage::route_info::BrokerKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Differences by rounding between two clocks.
const SLACK_MS: u64 = 500;

/// Status code of a GET on the HTTP port.
async fn http(node: &Node, path: &str) -> u16 {
    let mut stream = TcpStream::connect(node.running.http_address.unwrap()).await.unwrap();
    let get = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(get.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

async fn becomes(node: &Node, ready: Ready) {
    let mut now = node.running.service.ready();
    let waiting = now.wait_for(|now| *now == ready);
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .unwrap_or_else(|_| panic!("not {ready:?} in time"))
        .unwrap();
}

/// A connection to the first node, of a broker `b` that all nodes know.
async fn with_a_broker(nodes: &[Node]) -> Client {
    let mut client = Client::connect(nodes[0].address()).await;
    client.done(&Broker::new("b", 3).register()).await;
    nodes::same_revision(nodes).await;
    client
}

/// Stops all nodes but the first.
async fn all_but_one_stopped(mut nodes: Vec<Node>) -> (Node, Vec<Stopped>) {
    let mut stopped = Vec::new();
    while nodes.len() > 1 {
        stopped.push(nodes.pop().unwrap().stop().await);
    }
    (nodes.pop().unwrap(), stopped)
}

async fn put(client: &mut Client, key: &str, value: &str) {
    client.done(&request(code::PUT_KV_CONFIG, &[("namespace", "n"), ("key", key), ("value", value)])).await;
}

/// The entries that it lacks are purged, so it gets a snapshot. Until it has caught up it answers "not ready", and never
/// with the old table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_away_for_long_answers_nothing_from_before() {
    let mut nodes = nodes::cluster_with(3, |config| {
        config.snapshots = SnapshotPolicy { entries: 20, log_bytes_max: 1, ..SnapshotPolicy::default() };
    })
    .await;
    let (old, new) = (Broker::new("old", 3), Broker::new("new", 3));
    let mut client = Client::connect(nodes[0].address()).await;
    client.done(&old.register()).await;
    nodes::same_revision(&nodes).await;
    let away = nodes.pop().unwrap();
    let before = away.revision();
    let away = away.stop().await;

    client.done(&old.unregister()).await;
    client.done(&new.register()).await;
    let begun = Instant::now();
    let mut n = 0u64;
    while !nodes.iter().all(|node| node.running.node.status().purged.is_some_and(|id| id.index > before)) {
        assert!(begun.elapsed() < PATIENCE, "nothing is purged");
        put(&mut client, "k", &n.to_string()).await;
        n += 1;
    }
    // The broker has registered and sent nothing since.
    let key = BrokerKey { cluster: new.cluster.as_str().into(), address: new.address.as_str().into() };
    let idle_ms = |node: &Node| node.running.liveness.idle_ms(&key);
    while !nodes.iter().any(|node| idle_ms(node).is_some_and(|ms| ms >= 2 * SLACK_MS)) {
        assert!(begun.elapsed() < PATIENCE, "its registration still counts");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let back = away.start().await;
    let mut client = Client::connect(back.address()).await;
    let begun = Instant::now();
    loop {
        let (route_old, route_new) = (client.route("old_t0").await, client.route("new_t0").await);
        assert!(matches!(route_old, Err(1 | 17)), "{route_old:?}");
        match route_new {
            Ok(_) => break,
            Err(code) => assert_eq!(code, 1, "'not exist' by a node that was not entitled"),
        }
        assert!(begun.elapsed() < PATIENCE, "never ready again");
    }
    assert_eq!(client.route("old_t0").await, Err(17));
    becomes(&back, Ready::Yes).await;
    // The broker came with the snapshot, not by an entry. When this node leads, it has a lease for it, with the idle time
    // that the other nodes report.
    let elected = Instant::now();
    nodes::let_lead(&back).await;
    loop {
        let led_ms = u64::try_from(elected.elapsed().as_millis()).unwrap();
        if idle_ms(&back).is_some_and(|idle| idle >= led_ms + SLACK_MS) {
            break;
        }
        assert!(elected.elapsed() < PATIENCE, "the broker has no lease, or one that began with the leader");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for node in nodes.into_iter().chain([back]) {
        node.stop().await;
    }
}

/// Proposes that many entries at the leader, without the wire.
async fn put_entries(nodes: &[Node], count: usize) {
    /// As many as a leader lets be under way at once.
    const AT_A_TIME: usize = 4;
    let node = &nodes[nodes::leader(nodes).await].running.node;
    let putting = (0..AT_A_TIME).map(|at| async move {
        for n in 0..count / AT_A_TIME {
            let value = Some(n.to_string().into());
            let change = Change::PutKv(PutKv { namespace: "n".into(), key: at.to_string().into(), value });
            let command = Command { origin: Origin::default(), change };
            node.propose(command, Instant::now() + PATIENCE).await.unwrap();
        }
    });
    futures_util::future::join_all(putting).await;
}

/// Only the log can bring it up to date, and that takes a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_ten_thousand_entries_behind_answers_nothing_from_between() {
    const ENTRIES: usize = 10_000;
    let mut nodes = nodes::cluster_with(3, |config| {
        config.batch_commands_max = 1;
        config.service.readiness.recovery_wait = None;
    })
    .await;
    let (old, new) = (Broker::new("old", 3), Broker::new("new", 3));
    let mut client = Client::connect(nodes[0].address()).await;
    client.done(&old.register()).await;
    nodes::same_revision(&nodes).await;
    let away = nodes.pop().unwrap().stop().await;
    put_entries(&nodes, ENTRIES).await;
    // As the last entry.
    client.done(&old.unregister()).await;
    client.done(&new.register()).await;
    let level = nodes::same_revision(&nodes).await;
    let purged = |node: &Node| node.running.node.status().purged.is_some();
    assert!(!nodes.iter().any(purged), "it would get a snapshot");

    let stopped = futures_util::future::join_all(nodes.into_iter().map(Node::stop)).await;
    let back = away.start().await;
    assert!(back.revision() + ENTRIES as u64 <= level, "{} of {level}", back.revision());
    let mut client = Client::connect(back.address()).await;
    let look_up = |topic: &str| request(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", topic)]);
    let not_ready = (1, Some("name server not ready"));
    let answer = client.ask(&look_up("new_t0")).await;
    assert_eq!((answer.code, answer.remark.as_deref()), not_ready);
    let starting = futures_util::future::join_all(stopped.into_iter().map(|node| node.start()));
    let watching = async {
        let (begun, mut between) = (Instant::now(), 0);
        loop {
            let applied = back.revision();
            let (of_old, of_new) =
                (client.ask(&look_up("old_t0")).await, client.ask(&look_up("new_t0")).await);
            if of_new.code == 0 {
                println!("{between} times not ready while it applied");
                return;
            }
            // Either look-up may be answered first.
            assert!(of_old.code == 1 || of_old.code == 17 && back.revision() >= level, "{}", of_old.code);
            assert_eq!((of_new.code, of_new.remark.as_deref()), not_ready);
            between += usize::from(applied + (ENTRIES as u64) > level && applied < level);
            assert!(begun.elapsed() < PATIENCE, "never ready again");
        }
    };
    let (others, ()) = tokio::join!(starting, watching);
    assert!(back.revision() >= level);
    assert_eq!(client.route("old_t0").await, Err(17));
    assert!(client.route("new_t0").await.is_ok());
    for node in others.into_iter().chain([back]) {
        node.stop().await;
    }
}

/// Asserts it over a new connection, which a removed node may close at any time.
async fn answers_not_ready(node: &Node) {
    let ask = request(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", "b_t0")]);
    for _ in 0..3 {
        let mut client = Client::connect(node.address()).await;
        let _ = client.stream.write_all(&bytes_of(&ask)).await;
        if let Some(answer) = client.next().await {
            return assert_eq!(answer.code, 1);
        }
    }
    panic!("closed without an answer each time");
}

/// One node runs when it is removed, and one is down and learns it later from the others. Neither serves again, and both
/// close their connections: clients would stay with them as long as they answer anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_nodes_answer_nothing_also_when_they_were_away() {
    let mut nodes = nodes::cluster_with(5, |config| {
        config.service.readiness.recovery_wait = Some(Duration::from_millis(500));
    })
    .await;
    let _broker = with_a_broker(&nodes).await;
    let second = Broker::new("second", 2);
    let first = &nodes[0].running.node;
    first.transfer(Some(1), Instant::now() + PATIENCE).await.unwrap();
    let away = nodes.pop().unwrap().stop().await;
    let here = nodes.pop().unwrap();
    let (mut client, mut of_broker) =
        (Client::connect(here.address()).await, Client::connect(here.address()).await);
    of_broker.done(&second.register()).await;
    assert!(client.route("second_t0").await.is_ok());
    let first = &nodes[0].running.node;
    for id in [5, 4] {
        first.change_members(MemberChange::Remove(id), Instant::now() + PATIENCE).await.unwrap();
    }
    becomes(&here, Ready::No).await;
    assert!(client.is_closed().await && of_broker.is_closed().await);
    assert!(here.running.server.counters().closed_removed.get() >= 2);
    answers_not_ready(&here).await;
    let_another_pass(&nodes, "other").await;
    assert_stays(&nodes, &second).await;
    assert_eq!((http(&here, "/livez").await, http(&here, "/readyz").await), (200, 503));

    let away = away.start().await;
    let begun = Instant::now();
    let mut client = Client::connect(away.address()).await;
    while away.running.node.status().phase != Phase::Removed {
        answers_not_ready(&away).await;
        assert!(begun.elapsed() < PATIENCE, "it never learned that it was removed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(client.is_closed().await);
    answers_not_ready(&away).await;
    assert_eq!((http(&away, "/livez").await, http(&away, "/readyz").await), (200, 503));
    for node in nodes.into_iter().chain([here, away]) {
        node.stop().await;
    }
}

/// Beyond `max_staleness` it stops answering look-ups, and later goes on by itself. It is alive all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_its_quorum_is_alive_and_beyond_max_staleness_not_ready() {
    let nodes = nodes::cluster_with(3, |config| {
        config.service.readiness.staleness_max = Some(Duration::from_secs(5));
    })
    .await;
    let mut client = with_a_broker(&nodes).await;
    let (left, mut stopped) = all_but_one_stopped(nodes).await;
    assert!(client.route("b_t0").await.is_ok(), "it does not stop at once");
    becomes(&left, Ready::No).await;
    assert_eq!(client.route("b_t0").await, Err(1));
    assert_eq!((http(&left, "/livez").await, http(&left, "/readyz").await), (200, 503));

    let back = stopped.pop().unwrap().start().await;
    becomes(&left, Ready::Yes).await;
    assert!(client.route("b_t0").await.is_ok());
    assert_eq!(http(&left, "/readyz").await, 200);
    for node in [left, back] {
        node.stop().await;
    }
}

/// By default a running node goes on, marks its answers as stale, and stops doing so once a leader is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_node_that_loses_its_leader_goes_on_marked_stale() {
    let nodes = nodes::cluster(3).await;
    let mut client = with_a_broker(&nodes).await;
    let (left, mut stopped) = all_but_one_stopped(nodes).await;
    becomes(&left, Ready::Stale).await;
    assert!(client.route("b_t0").await.is_ok());
    denies_nothing(&mut client).await;
    assert_eq!((http(&left, "/livez").await, http(&left, "/readyz").await), (200, 200));
    let back = stopped.pop().unwrap().start().await;
    becomes(&left, Ready::Yes).await;
    for node in [left, back] {
        node.stop().await;
    }
}

/// What is not in the table of a node without a leader may exist: the others may have acknowledged it.
async fn denies_nothing(client: &mut Client) {
    let key = [("namespace", "n"), ("key", "k")];
    for look_up in [
        request(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", "new_t0")]),
        request(code::GET_KV_CONFIG, &key),
        request(code::GET_KVLIST_BY_NAMESPACE, &key[..1]),
        request(code::GET_BROKER_MEMBER_GROUP, &[("clusterName", "c"), ("brokerName", "new")]),
    ] {
        nodes::until("it denies nothing", async || client.ask(&look_up).await.code == 1).await;
        let remark = client.ask(&look_up).await.remark.unwrap();
        assert!(remark.contains("may lack the latest changes"), "{remark}");
    }
}

/// Its log does not say what the majority has acknowledged after it ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_node_without_a_leader_shows_what_it_has_and_denies_nothing() {
    let nodes = nodes::cluster_with(3, |config| {
        config.service.readiness.recovery_wait = Some(Duration::from_millis(500));
    })
    .await;
    let _broker = with_a_broker(&nodes).await;
    let (left, others) = all_but_one_stopped(nodes).await;
    let alone = left.stop().await.start().await;
    becomes(&alone, Ready::Stale).await;
    let mut client = Client::connect(alone.address()).await;
    assert!(client.route("b_t0").await.is_ok());
    denies_nothing(&mut client).await;
    drop(others);
    alone.stop().await;
}

/// A learner that joins a table with content serves it whole, or not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_joining_node_answers_nothing_before_it_has_caught_up() {
    let first = Node::alone().await;
    let mut client = Client::connect(first.address()).await;
    for n in 0..50 {
        client.done(&Broker::new(&format!("b{n}"), 3).register()).await;
    }
    let joining = Node::joining(2, &first).await;
    let mut client = Client::connect(joining.address()).await;
    assert_eq!(client.route("b49_t0").await, Err(1));
    assert_eq!((http(&joining, "/livez").await, http(&joining, "/readyz").await), (200, 503));
    let member = raft::Member { id: 2, address: joining.running.peer_address.to_string() };
    let deadline = Instant::now() + PATIENCE;
    let adding = first.running.node.change_members(MemberChange::AddLearner(member), deadline);
    let watching = async {
        let begun = Instant::now();
        while let Err(code) = client.route("b49_t0").await {
            assert_eq!(code, 1, "'not exist' by a node that was not entitled");
            assert!(begun.elapsed() < PATIENCE, "never ready");
        }
        for n in 0..50 {
            assert!(client.route(&format!("b{n}_t0")).await.is_ok(), "a part of the table");
        }
    };
    let (added, ()) = tokio::join!(adding, watching);
    added.unwrap();
    becomes(&joining, Ready::Yes).await;
    for node in [joining, first] {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_begins_to_stop_answers_no_look_up() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    client.done(&Broker::new("b", 3).register()).await;
    node.running.service.stop();
    assert_eq!(client.route("b_t0").await, Err(1));
    // From an empty group its broker would conclude that it is alone.
    let members = request(code::GET_BROKER_MEMBER_GROUP, &[("clusterName", "C"), ("brokerName", "b")]);
    assert_eq!(client.ask(&members).await.code, 1);
    assert_eq!((http(&node, "/livez").await, http(&node, "/readyz").await), (200, 503));
    node.stop().await;
}
