//! Connections of clients: frames in pieces, limits, ends.

use super::client::{Broker, Client, bytes_of, request};
use super::nodes::{Node, PATIENCE, until};
use raft_namesrv::wire::codes::request as code;
use std::time::Duration;
use storage::route_info::BrokerKey;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_may_come_in_any_pieces() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let frame = bytes_of(&request(code::GET_NAMESRV_CONFIG, &[]));
    for split in 1..frame.len() {
        client.send_bytes(&frame[..split]).await;
        tokio::task::yield_now().await;
        client.send_bytes(&frame[split..]).await;
        assert_eq!(client.next().await.unwrap().code, 0, "split at {split}");
    }
    for byte in &frame {
        client.send_bytes(&[*byte]).await;
    }
    assert_eq!(client.next().await.unwrap().code, 0);
    node.stop().await;
}

/// Behind a load balancer all connections come from one address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_of_a_proxy_header_is_the_peer_of_its_requests() {
    let node = Node::alone().await;
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend([203, 0, 113, 7, 127, 0, 0, 1]);
    header.extend([40_000_u16, 9876].map(u16::to_be_bytes).concat());
    let bytes = [header, bytes_of(&Broker::new("b", 2).register())].concat();
    let mut client = Client::connect(node.address()).await;
    // In two pieces, the first with a part of the header.
    client.send_bytes(&bytes[..20]).await;
    tokio::task::yield_now().await;
    client.send_bytes(&bytes[20..]).await;
    assert_eq!(client.next().await.unwrap().code, 0);
    client.route("b_t0").await.unwrap();
    let table = node.running.node.table();
    let peers: Vec<&str> = table.audit().map(|record| &*record.origin.peer).collect();
    assert!(!peers.is_empty() && peers.iter().all(|peer| *peer == "203.0.113.7:40000"), "{peers:?}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requests_in_one_write_are_all_answered() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let requests: Vec<_> = (0..2_000).map(|_| request(code::GET_NAMESRV_CONFIG, &[])).collect();
    let bytes: Vec<u8> = requests.iter().flat_map(bytes_of).collect();
    let (mut read, mut write) = tokio::io::split(&mut client.stream);
    let sending = async { write.write_all(&bytes).await.unwrap() };
    let mut decoder = raft_namesrv::wire::Decoder::for_client();
    let receiving = async {
        let mut buffer = bytes::BytesMut::new();
        for request in &requests {
            let answer = loop {
                if let Some(answer) = decoder.next(&mut buffer).unwrap() {
                    break answer;
                }
                let read = tokio::io::AsyncReadExt::read_buf(&mut read, &mut buffer).await.unwrap();
                assert!(read > 0, "closed");
            };
            assert_eq!(answer.opaque, request.opaque, "look-ups are answered in order");
        }
    };
    timeout(PATIENCE, futures_util::future::join(sending, receiving)).await.expect("not all answered");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_bytes_end_their_own_connection_only() {
    let node = Node::alone().await;
    let mut other = Client::connect(node.address()).await;
    let http = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec();
    let tls = [&[0x16, 3, 1, 2, 0, 1, 0, 1][..], &[0; 64]].concat();
    let mut too_long = (16u32 << 20).to_be_bytes().to_vec();
    too_long.extend([0; 16]);
    let claims = [vec![0, 0, 0, 16, 0, 0xFF, 0xFF, 0xFF], vec![b'{'; 16]].concat();
    for bytes in [http, tls, too_long, claims, vec![0xFF; 64], vec![0; 16]] {
        let mut client = Client::connect(node.address()).await;
        client.send_bytes(&bytes).await;
        assert!(client.is_closed().await, "{bytes:?}");
        assert_eq!(other.ask(&request(code::GET_NAMESRV_CONFIG, &[])).await.code, 0);
    }
    let counters = node.running.server.counters();
    assert_eq!((counters.closed_broken_frame.get(), counters.closed_tls.get()), (5, 1));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_is_closed_and_a_busy_one_is_not() {
    let idle = Duration::from_millis(300);
    let node = Node::alone_with(|config| config.server.limits.idle = idle).await;
    let mut busy = Client::connect(node.address()).await;
    let begun = Instant::now();
    let mut quiet = Client::connect(node.address()).await;
    let keep_busy = async {
        while begun.elapsed() < idle * 3 {
            busy.done(&request(code::GET_NAMESRV_CONFIG, &[])).await;
            tokio::time::sleep(idle / 6).await;
        }
    };
    let (closed, ()) = futures_util::future::join(quiet.is_closed(), keep_busy).await;
    assert!(closed && begun.elapsed() >= idle);
    assert_eq!(node.running.server.counters().closed_idle.get(), 1);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_too_many_is_closed_at_once() {
    let node = Node::alone_with(|config| config.server.limits.connections = 2).await;
    let mut first = Client::connect(node.address()).await;
    let mut second = Client::connect(node.address()).await;
    for client in [&mut first, &mut second] {
        client.done(&request(code::GET_NAMESRV_CONFIG, &[])).await;
    }
    assert!(Client::connect(node.address()).await.is_closed().await);
    assert_eq!(node.running.server.counters().connections_refused.get(), 1);
    drop(first);
    until("a place is given back", async || node.running.server.counters().connections_now.get() == 1).await;
    Client::connect(node.address()).await.done(&request(code::GET_NAMESRV_CONFIG, &[])).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_takes_no_answers_is_closed() {
    let node = Node::alone_with(|config| {
        config.server.limits.write_buffer_bytes = 64 << 10;
        config.server.limits.write_stall = Duration::from_millis(200);
    })
    .await;
    let mut client = Client::connect(node.address()).await;
    let bytes: Vec<u8> = (0..1_000).flat_map(|_| bytes_of(&request(code::GET_NAMESRV_CONFIG, &[]))).collect();
    let flood = async { while client.stream.write_all(&bytes).await.is_ok() {} };
    timeout(PATIENCE, flood).await.expect("it was not closed");
    until("the close is counted", async || node.running.server.counters().closed_slow_reader.get() == 1)
        .await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_writes_under_way_are_answered_busy() {
    let node = Node::alone_with(|config| config.server.limits.in_flight_per_connection = 4).await;
    let mut client = Client::connect(node.address()).await;
    let puts: Vec<_> = (0..50)
        .map(|n| request(code::PUT_KV_CONFIG, &[("namespace", "n"), ("key", &n.to_string()), ("value", "v")]))
        .collect();
    client.send_bytes(&puts.iter().flat_map(bytes_of).collect::<Vec<u8>>()).await;
    let mut codes = std::collections::BTreeMap::new();
    for _ in &puts {
        let answer = client.next().await.unwrap();
        *codes.entry((answer.code, answer.remark)).or_insert(0) += 1;
    }
    let busy = codes[&(2, Some("[OVERLOAD]system busy, start flow control for a while".into()))];
    assert_eq!(codes.values().sum::<u64>(), 50);
    assert!((1..=46).contains(&busy), "{codes:?}");
    assert_eq!(node.running.server.counters().busy_connection.get(), busy);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_keep_their_order_and_look_ups_do_not_wait_for_them() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let puts: Vec<_> = (0..100)
        .map(|n| request(code::PUT_KV_CONFIG, &[("namespace", "n"), ("key", "k"), ("value", &n.to_string())]))
        .collect();
    let look_up = request(code::GET_NAMESRV_CONFIG, &[]);
    let frames = puts.iter().chain([&look_up]);
    client.send_bytes(&frames.flat_map(bytes_of).collect::<Vec<u8>>()).await;
    let mut order = Vec::new();
    for _ in 0..=puts.len() {
        order.push(client.next().await.unwrap().opaque);
    }
    assert_eq!(order[0], look_up.opaque, "the look-up came last and is answered first");
    assert!(order[1..].iter().eq(puts.iter().map(|put| &put.opaque)), "writes are answered in order");
    let get = request(code::GET_KV_CONFIG, &[("namespace", "n"), ("key", "k")]);
    assert_eq!(client.done(&get).await.field("value"), Some("99"));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oneway_requests_are_carried_out_and_never_answered() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let put = request(code::PUT_KV_CONFIG, &[("namespace", "n"), ("key", "k"), ("value", "v")]).oneway();
    client.send(&put).await;
    client.send(&request(code::PUT_KV_CONFIG, &[]).oneway()).await;
    client.send(&request(9_999, &[]).oneway()).await;
    client.done(&request(code::PUT_KV_CONFIG, &[("namespace", "n"), ("key", "l"), ("value", "v")])).await;
    let get = request(code::GET_KV_CONFIG, &[("namespace", "n"), ("key", "k")]);
    assert_eq!(client.done(&get).await.field("value"), Some("v"), "the oneway put came before");
    node.stop().await;
}

/// Their bytes are the same but for the opaque, so from the third on they are not read; each counts for its own broker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_that_repeat_count_each_time() {
    let node = Node::alone().await;
    let brokers = [Broker::new("a", 2), Broker::new("b", 2)];
    let mut client = Client::connect(node.address()).await;
    for broker in &brokers {
        client.done(&broker.register()).await;
    }
    let idle_ms = |broker: &Broker| {
        let key =
            BrokerKey { cluster: broker.cluster.as_str().into(), address: broker.address.as_str().into() };
        node.running.liveness.idle_ms(&key).unwrap()
    };
    let counted = || {
        let requests = node.running.server.counters().requests.iter();
        let beats = requests.filter(|(code, _)| *code == code::BROKER_HEARTBEAT).map(|(_, count)| count);
        (beats.sum::<u64>(), node.running.liveness.totals().counters.heartbeats)
    };
    let (beats, heartbeats) = counted();
    for (round, sends) in (1..).zip([0, 0, 0, 0, 1, 1, 1, 0]) {
        until("both are idle for a moment", async || brokers.iter().all(|broker| idle_ms(broker) >= 40))
            .await;
        // With an opaque of its own each, the last one in two pieces, and a look-up in between.
        let frame = bytes_of(&brokers[sends].heartbeat().oneway());
        let look_up = request(code::GET_NAMESRV_CONFIG, &[]);
        client
            .send_bytes(&[frame.as_slice(), &frame, &bytes_of(&look_up), &frame[..frame.len() - 1]].concat())
            .await;
        assert_eq!(client.next().await.unwrap().opaque, look_up.opaque);
        client.send_bytes(&frame[frame.len() - 1..]).await;
        client.done(&request(code::GET_NAMESRV_CONFIG, &[])).await;
        assert_eq!(counted(), (beats + 3 * round, heartbeats + 3 * round));
        assert!(idle_ms(&brokers[sends]) < idle_ms(&brokers[1 - sends]), "round {round}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_before_a_close_is_carried_out() {
    let node = Node::alone().await;
    let broker = Broker::new("b", 2);
    let mut other = Client::connect(node.address()).await;
    let mut client = Client::connect(node.address()).await;
    client.done(&broker.register()).await;
    client.send(&broker.unregister()).await;
    let put = request(code::PUT_KV_CONFIG, &[("namespace", "n"), ("key", "k"), ("value", "v")]);
    client.send(&put).await;
    drop(client);
    let get = request(code::GET_KV_CONFIG, &[("namespace", "n"), ("key", "k")]);
    let deadline = Instant::now() + PATIENCE;
    while other.ask(&get).await.code != 0 {
        assert!(Instant::now() < deadline, "the put was not carried out");
    }
    assert_eq!(other.route("b_t0").await, Err(17));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_node_answers_what_is_under_way_and_closes() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let puts: Vec<_> = (0..20)
        .map(|n| request(code::PUT_KV_CONFIG, &[("namespace", "n"), ("key", &n.to_string()), ("value", "v")]))
        .collect();
    client.send_bytes(&puts.iter().flat_map(bytes_of).collect::<Vec<u8>>()).await;
    let first = client.next().await.unwrap();
    assert_eq!(first.code, 0);
    let stopping = tokio::spawn(node.stop());
    for _ in 1..puts.len() {
        let answer = client.next().await.expect("a request under way was not answered");
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
    }
    assert!(client.is_closed().await);
    stopping.await.unwrap();
}

/// One byte now and then keeps a connection from being idle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_that_trickles_in_loses_its_place_and_whole_frames_keep_theirs() {
    let frame_time = Duration::from_millis(400);
    let node = Node::alone_with(|config| {
        config.server.limits.connections = 3;
        config.server.limits.frame_time = frame_time;
    })
    .await;
    let mut steady = Client::connect(node.address()).await;
    steady.done(&request(code::GET_NAMESRV_CONFIG, &[])).await;
    let frame = bytes_of(&request(code::GET_NAMESRV_CONFIG, &[("long", &"x".repeat(1_000))]));
    let begun = Instant::now();
    let trickle = async || {
        let mut client = Client::connect(node.address()).await;
        for byte in &frame {
            if client.stream.write_all(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(frame_time / 20).await;
        }
        assert!(client.is_closed().await);
    };
    let keep_busy = async {
        while begun.elapsed() < frame_time * 3 {
            steady.send_bytes(&frame[..500]).await;
            tokio::time::sleep(frame_time / 8).await;
            steady.send_bytes(&frame[500..]).await;
            assert_eq!(steady.next().await.unwrap().code, 0);
        }
    };
    let all = futures_util::future::join3(trickle(), trickle(), keep_busy);
    timeout(PATIENCE, all).await.expect("they keep their places");
    let counters = node.running.server.counters();
    assert_eq!((counters.closed_slow_frame.get(), counters.closed_by_peer.get()), (2, 0));
    assert_eq!(
        Client::connect(node.address()).await.ask(&request(code::GET_NAMESRV_CONFIG, &[])).await.code,
        0
    );
    node.stop().await;
}

/// Its answers fill the sockets, one of them waits in the node, and the other requests wait for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_a_peer_that_reads_late_wait_and_are_all_answered() {
    let node = Node::alone_with(|config| config.server.limits.write_buffer_bytes = 64 << 10).await;
    let mut other = Client::connect(node.address()).await;
    other.done(&Broker::new(&"b".repeat(200), 3_000).register()).await;
    let list = request(code::GET_ALL_TOPIC_LIST_FROM_NAMESERVER, &[]);
    let list_bytes = other.done(&list).await.body.len() as u64;
    // Few enough for one read: no later one brings the server back to those that wait.
    let requests: Vec<_> =
        (0..40).map(|n| if n < 30 { list.clone() } else { request(code::GET_NAMESRV_CONFIG, &[]) }).collect();
    let mut late = Client::connect(node.address()).await;
    late.send_bytes(&requests.iter().flat_map(bytes_of).collect::<Vec<u8>>()).await;
    let budgets = node.running.service.budgets();
    until("an answer waits", async || budgets.replies.bytes() > list_bytes / 2).await;
    for _ in 0..10 {
        other.done(&request(code::GET_NAMESRV_CONFIG, &[])).await;
        assert!(budgets.replies.bytes() < 2 * list_bytes, "more than one answer waits");
    }
    for request in &requests {
        let answer = late.next().await.expect("it was closed");
        assert_eq!((answer.opaque, answer.code), (request.opaque, 0));
    }
    until("all is given back", async || budgets.replies.bytes() == 0).await;
    node.stop().await;
}
