//! Names and values have limits in bytes: what is over them is refused in words, and changes nothing.

use super::client::{Broker, Client, json_of, request};
use super::nodes::Node;
use raft_namesrv::wire::codes::request as code;
use storage::limits::{CLIENT_FRAME_BYTES_MAX, KV_NAMESPACE_BYTES_MAX, KV_VALUE_BYTES_MAX, TOPIC_BYTES_MAX};

const ORDER: &str = "ORDER_TOPIC_CONFIG";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kv_namespace_that_is_full_still_fits_the_reply_to_a_registration() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let value = "v".repeat(KV_VALUE_BYTES_MAX);
    let put = |key: &str, value: &str| {
        request(code::PUT_KV_CONFIG, &[("namespace", ORDER), ("key", key), ("value", value)])
    };
    let fit = KV_NAMESPACE_BYTES_MAX / KV_VALUE_BYTES_MAX - 1;
    for number in 0..fit {
        client.done(&put(&format!("k{number}"), &value)).await;
    }
    let refused = client.ask(&put("one more", &value)).await;
    let remark = refused.remark.unwrap();
    assert_eq!(refused.code, 1);
    assert!(
        remark.contains(ORDER) && remark.contains(&format!("at most {KV_NAMESPACE_BYTES_MAX}")),
        "{remark}"
    );
    // What takes twice the bytes in JSON counts twice.
    assert_eq!(client.ask(&put("one more", &"\"".repeat(KV_VALUE_BYTES_MAX / 2))).await.code, 1);
    client.done(&put("small", "v")).await;

    let answer = client.done(&Broker::new("b", 2).register()).await;
    assert!(answer.body.len() > fit * KV_VALUE_BYTES_MAX && answer.body.len() < CLIENT_FRAME_BYTES_MAX);
    assert_eq!(json_of(&answer)["table"].as_object().unwrap().len(), fit + 1);
    client.done(&request(code::DELETE_KV_CONFIG, &[("namespace", ORDER), ("key", "k0")])).await;
    client.done(&put("one more", &value)).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_over_a_limit_is_refused_and_changes_nothing() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let broker = Broker::new("b", 2);
    client.done(&broker.register()).await;
    let revision = node.running.node.status().last;
    let long = "t".repeat(TOPIC_BYTES_MAX + 1);
    let mut with_long_topic = Broker { counter: 2, ..broker.clone() };
    with_long_topic.topics.push((long.clone(), 4));
    let key = |key: &str| request(code::PUT_KV_CONFIG, &[("namespace", "n"), ("key", key), ("value", "v")]);
    for refused in [with_long_topic.register(), key(&long), key(""), key("a\0")] {
        let answer = client.ask(&refused).await;
        assert_eq!(answer.code, 1, "{:?}", answer.remark);
    }
    let answer = client.ask(&with_long_topic.register()).await;
    let remark = answer.remark.unwrap();
    let expected = format!("has {} bytes, at most {TOPIC_BYTES_MAX} are allowed", TOPIC_BYTES_MAX + 1);
    assert!(remark.starts_with("topic \"ttt") && remark.ends_with(&expected), "{remark}");
    assert_eq!(node.running.node.status().last, revision, "nothing was appended");
    let longest = "t".repeat(TOPIC_BYTES_MAX);
    let mut with_longest = Broker { counter: 3, ..broker };
    with_longest.topics.push((longest.clone(), 4));
    client.done(&with_longest.register()).await;
    assert!(client.route(&longest).await.is_ok());
    node.stop().await;
}
