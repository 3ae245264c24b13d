//! Registrations: unchanged, refused, superseded, large.

use super::client::{Broker, Client, request};
use super::nodes::{self, Node};
use raft_namesrv::wire::codes::request as code;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unchanged_registration_writes_no_entry_and_is_known_by_its_bytes() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let broker = Broker::new("b", 1_000);
    client.done(&broker.register()).await;
    let revision = node.revision();
    for _ in 0..10 {
        client.done(&broker.register()).await;
    }
    assert_eq!(node.revision(), revision);
    let counted = &node.running.service.registrations;
    assert_eq!((counted.differences.get(), counted.known_digest.get()), (1, 10));

    // Other bytes of the same registration are parsed once; their digest is known from then on.
    let mut body: Value = serde_json::from_slice(&broker.body()).unwrap();
    body["somethingNew"] = json!(1);
    for _ in 0..3 {
        client.done(&broker.register_with(body.to_string().into_bytes())).await;
    }
    assert_eq!((counted.unchanged.get(), counted.known_digest.get()), (1, 12));
    assert_eq!(node.revision(), revision);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_changed_topic_is_proposed_as_a_difference() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let mut broker = Broker::new("b", 1_000);
    client.done(&broker.register()).await;
    broker.topics[500].1 = 9;
    broker.counter += 1;
    let bytes_before = node.running.node.status().log_bytes;
    client.done(&broker.register()).await;
    let grown = node.running.node.status().log_bytes - bytes_before;
    assert!(grown < 2_048, "{grown} bytes of log for one topic");
    assert_eq!(client.route("b_t500").await.unwrap()["queueDatas"][0]["readQueueNums"], json!(9));
    assert_eq!(client.route("b_t501").await.unwrap()["queueDatas"][0]["readQueueNums"], json!(4));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_known_digest_is_no_heartbeat_once_the_broker_name_was_touched() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let broker = Broker::new("b", 3);
    client.done(&broker.register()).await;
    client.done(&broker.register()).await;
    client.done(&request(code::DELETE_TOPIC_IN_NAMESRV, &[("topic", "b_t1")])).await;
    assert_eq!(client.route("b_t1").await, Err(17));
    client.done(&broker.register()).await;
    assert!(client.route("b_t1").await.is_ok(), "a topic that is missing is taken again, as in Java");
    client.done(&broker.unregister()).await;
    client.done(&broker.register()).await;
    assert!(client.route("b_t0").await.is_ok());
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_checksum_is_refused_before_anything_else() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let broker = Broker::new("b", 3);
    client.done(&broker.register()).await;
    client.done(&broker.register()).await;
    let mut damaged = broker.register();
    damaged.body = broker.body().iter().map(|byte| if *byte == b'4' { b'5' } else { *byte }).collect();
    let revision = node.revision();
    let answer = client.ask(&damaged).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (1, Some("crc32 not match")));
    let answer = client.ask(&damaged).await;
    assert_eq!(answer.code, 1, "and what was refused is not remembered");
    assert_eq!(node.revision(), revision);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_registration_with_one_topic_is_refused_and_leaves_nothing() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let whole = Broker::new("b", 5);
    let single = Broker { topics: whole.topics[..1].to_vec(), ..whole.clone() };
    let answer = client.ask(&single.register()).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (1, Some("register broker failed")));
    assert_eq!(client.route("b_t0").await, Err(17));
    client.done(&whole.register()).await;
    client.done(&single.register()).await;
    for topic in 0..5 {
        assert!(client.route(&format!("b_t{topic}")).await.is_ok());
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_that_loses_opens_no_session() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let winner = Broker { state_version: 2, ..Broker::new("b", 3) };
    client.done(&winner.register()).await;
    let loser = Broker { state_version: 1, address: "late.test:10911".into(), ..winner.clone() };
    let mut late = Client::connect(node.address()).await;
    late.done(&loser.register()).await;
    assert_eq!(node.running.service.registrations.outdated.get(), 1);
    drop(late);
    let route = client.route("b_t0").await.unwrap();
    assert_eq!(route["brokerDatas"][0]["brokerAddrs"], json!({"0": "b.test:10911"}));
    node.stop().await;
}

/// Bodies and fields that are not what they should be: taken whole or refused whole, and the connection goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_registrations_are_taken_whole_or_change_nothing() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let broker = Broker::new("b", 3);
    client.done(&broker.register()).await;
    let whole: Value = serde_json::from_slice(&broker.body()).unwrap();
    let odd =
        [Value::Null, json!([]), json!({}), json!(""), json!(-1), json!("x"), json!(true), json!(1e300)];
    let places = [
        "/topicConfigSerializeWrapper",
        "/topicConfigSerializeWrapper/dataVersion",
        "/topicConfigSerializeWrapper/dataVersion/counter",
        "/topicConfigSerializeWrapper/topicConfigTable",
        "/topicConfigSerializeWrapper/topicConfigTable/b_t0",
        "/topicConfigSerializeWrapper/topicConfigTable/b_t0/perm",
        "/topicConfigSerializeWrapper/topicConfigTable/b_t0/topicName",
        "/topicConfigSerializeWrapper/topicQueueMappingInfoMap",
        "/filterServerList",
    ];
    for place in places {
        for value in &odd {
            let mut body = whole.clone();
            *body.pointer_mut(place).unwrap() = value.clone();
            let before = node.revision();
            let answer = client.ask(&broker.register_with(body.to_string().into_bytes())).await;
            assert!([0, 1].contains(&answer.code), "{place} = {value}: code {}", answer.code);
            if answer.code == 1 {
                assert!(answer.remark.is_some());
                assert_eq!(node.revision(), before, "{place} = {value} was refused and written");
            }
            client.done(&broker.register()).await;
        }
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_copies_of_a_registration_are_one_change() {
    let nodes = nodes::cluster(3).await;
    let mut clients = Vec::new();
    for node in &nodes {
        clients.push(Client::connect(node.address()).await);
    }
    let broker = Broker::new("b", 50);
    let copies = clients.iter_mut().map(|client| {
        let command = broker.register();
        async move { client.done(&command).await }
    });
    futures_util::future::join_all(copies).await;
    nodes::same_revision(&nodes).await;
    let table = nodes[0].running.node.table();
    let registered = table
        .audit()
        .filter(|record| matches!(record.event, storage::outcome::Event::BrokerRegistered { .. }))
        .count();
    assert_eq!(registered, 1, "{:?}", table.audit().collect::<Vec<_>>());
    let revision = nodes::same_revision(&nodes).await;
    for client in &mut clients {
        client.done(&broker.register()).await;
    }
    assert_eq!(nodes::same_revision(&nodes).await, revision);
    for node in nodes {
        node.stop().await;
    }
}

/// Two registrations of a broker are under way through different nodes. When the older one finds that the newer one was
/// carried out, it is superseded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_that_waited_never_undoes_a_later_one() {
    const ROUNDS_MAX: i64 = 300;
    let nodes = nodes::cluster(3).await;
    let mut early = Client::connect(nodes[0].address()).await;
    let mut late = Client::connect(nodes[1].address()).await;
    let superseded = &nodes[0].running.service.registrations.conflicts;
    let state = |counter: i64| Broker {
        counter,
        topics: vec![("b_t0".to_owned(), i32::try_from(counter).unwrap()), ("b_t1".to_owned(), 4)],
        ..Broker::new("b", 0)
    };
    early.done(&state(1).register()).await;
    let mut seen = 0;
    for round in 1..=ROUNDS_MAX {
        let (older, newer) = (state(round * 2).register(), state(round * 2 + 1).register());
        let before = superseded.get();
        tokio::join!(late.done(&newer), early.done(&older));
        nodes::same_revision(&nodes).await;
        if superseded.get() == before {
            continue;
        }
        let route = late.route("b_t0").await.unwrap();
        let queues = route["queueDatas"][0]["readQueueNums"].as_i64();
        assert_eq!(queues, Some(round * 2 + 1), "round {round}: the older one took the newer one back");
        seen += 1;
        if seen == 5 {
            break;
        }
    }
    assert!(seen > 0, "in {ROUNDS_MAX} rounds the older one never came second");
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_starts_over_is_taken_with_a_lower_version() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let broker = Broker { counter: 9, ..Broker::new("b", 2) };
    client.done(&broker.register()).await;
    let topics = vec![("b_t0".to_owned(), 7), ("b_t1".to_owned(), 4)];
    let over = Broker { counter: 1, topics, ..broker };
    client.done(&over.register()).await;
    let route = client.route("b_t0").await.unwrap();
    assert_eq!(route["queueDatas"][0]["readQueueNums"].as_i64(), Some(7));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_at_every_node_is_answered_from_its_own_table() {
    let nodes = nodes::cluster(3).await;
    for (at, node) in nodes.iter().enumerate() {
        let mut client = Client::connect(node.address()).await;
        let broker = Broker::new(&format!("b{at}"), 3);
        client.done(&broker.register()).await;
        assert!(client.route(&format!("b{at}_t0")).await.is_ok(), "written through node {at}, read there");
        // The connection stays open until the end: its close would remove the broker.
        std::mem::forget(client);
    }
    for node in nodes {
        node.stop().await;
    }
}

/// Topics with long names fill a frame nearly to its limit: the entry is large, and reaches every node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_just_under_the_frame_limit_reaches_all_nodes_and_one_over_it_none() {
    const FRAME: usize = 16 << 20;
    let nodes = nodes::cluster(3).await;
    let mut client = Client::connect(nodes[0].address()).await;
    let name = |number: usize| format!("{number:04000}");
    let with_topics = |count: usize| {
        let mut broker = Broker::new("b", 2);
        broker.topics = (0..count).map(|number| (name(number), 4)).collect();
        broker.register()
    };
    let [two, three] = [2, 3].map(|count| super::client::bytes_of(&with_topics(count)).len());
    // The checksum in the header has some digits more or less.
    let largest = 2 + (FRAME - two - 16) / (three - two);
    client.done(&with_topics(largest)).await;
    let revision = nodes::same_revision(&nodes).await;
    for node in &nodes {
        let mut client = Client::connect(node.address()).await;
        assert!(client.route(&name(largest - 1)).await.is_ok());
    }
    let mut other = Client::connect(nodes[0].address()).await;
    let too_large = super::client::bytes_of(&with_topics(largest + 1));
    // The connection may be reset before all of it is sent.
    let _ = tokio::io::AsyncWriteExt::write_all(&mut other.stream, &too_large).await;
    assert!(other.is_closed().await);
    assert_eq!(nodes[0].running.server.counters().closed_broken_frame.get(), 1);
    assert_eq!(nodes::same_revision(&nodes).await, revision);
    for node in nodes {
        node.stop().await;
    }
}

/// A broker that sends its table in pieces, with rising and with equal versions: all of it is routed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_in_pieces_is_routed_whole() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let whole = Broker::new("b", 60);
    for rising in [true, false] {
        for round in 0..3 {
            for (at, piece) in whole.topics.chunks(20).enumerate() {
                let counter = if rising { round * 3 + at as i64 } else { 100 };
                let part = Broker { topics: piece.to_vec(), counter, ..whole.clone() };
                client.done(&part.register()).await;
            }
        }
        for topic in 0..60 {
            assert!(client.route(&format!("b_t{topic}")).await.is_ok(), "topic {topic}, rising {rising}");
        }
    }
    let counted = &node.running.service.registrations;
    assert!(counted.known_digest.get() >= 3, "pieces at one version are known by their bytes");
    node.stop().await;
}
