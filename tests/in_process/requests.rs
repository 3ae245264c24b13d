//! Every request code on one node.

use super::client::{Broker, Client, json_of, request};
use super::nodes::Node;
use raft_namesrv::wire::codes::request as code;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_registers_is_found_and_leaves() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let broker = Broker::new("b", 3);
    assert_eq!(client.route("b_t0").await, Err(17));
    let answer = client.done(&broker.register()).await;
    assert_eq!(answer.ext.map(|ext| ext.len()), Some(0), "a master gets no fields");
    let route = client.route("b_t0").await.unwrap();
    assert_eq!(route["brokerDatas"][0]["brokerAddrs"]["0"], json!("b.test:10911"));
    assert_eq!(route["queueDatas"][0]["readQueueNums"], json!(4));

    let slave = Broker { id: 1, address: "slave.test:10911".into(), ..broker.clone() };
    let answer = client.done(&slave.register()).await;
    assert_eq!(answer.field("masterAddr"), Some("b.test:10911"));
    assert_eq!(answer.field("haServerAddr"), Some("b:10912"));

    let group = request(code::GET_BROKER_MEMBER_GROUP, &[("clusterName", "C"), ("brokerName", "b")]);
    let answer = client.ask(&group).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (0, Some("not set any response code")));
    assert_eq!(
        String::from_utf8_lossy(&answer.body),
        r#"{"brokerMemberGroup":{"brokerAddrs":{0:"b.test:10911",1:"slave.test:10911"},"brokerName":"b","cluster":"C"}}"#
    );
    let cluster = client.done(&request(code::GET_BROKER_CLUSTER_INFO, &[])).await;
    assert!(String::from_utf8_lossy(&cluster.body).contains(r#""clusterAddrTable":{"C":["b"]}"#));

    client.done(&broker.unregister()).await;
    assert!(client.route("b_t0").await.is_ok(), "the slave is left");
    client.done(&slave.unregister()).await;
    assert_eq!(client.route("b_t0").await, Err(17));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_version_is_compared_with_identity() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let broker = Broker::new("b", 3);
    let changed = |answer: raft_namesrv::wire::RemotingCommand| answer.field("changed").map(str::to_owned);
    let answer = client.done(&broker.query_data_version()).await;
    assert!(answer.body.is_empty());
    assert_eq!(changed(answer).as_deref(), Some("true"));
    client.done(&broker.register()).await;
    client.done(&broker.heartbeat()).await;
    let answer = client.done(&broker.query_data_version()).await;
    assert_eq!(json_of(&answer)["counter"], json!(1));
    assert_eq!(changed(answer).as_deref(), Some("false"));
    for other in [
        Broker { counter: 2, ..broker.clone() },
        Broker { id: 1, ..broker.clone() },
        Broker { name: "other".into(), ..broker.clone() },
    ] {
        let answer = client.done(&other.query_data_version()).await;
        assert_eq!(changed(answer).as_deref(), Some("true"), "{other:?}");
    }
    for missing in [code::BROKER_HEARTBEAT, code::QUERY_DATA_VERSION] {
        assert_eq!(client.ask(&request(missing, &[("brokerName", "b")])).await.code, 1);
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_are_listed_registered_and_deleted() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    client.done(&Broker::new("b", 2).register()).await;
    let topics = |answer: &raft_namesrv::wire::RemotingCommand| json_of(answer)["topicList"].clone();
    let all = request(code::GET_ALL_TOPIC_LIST_FROM_NAMESERVER, &[]);
    assert_eq!(topics(&client.done(&all).await), json!(["b_t0", "b_t1"]));
    let of_cluster = request(code::GET_TOPICS_BY_CLUSTER, &[("cluster", "C")]);
    assert_eq!(topics(&client.done(&of_cluster).await), json!(["b_t0", "b_t1"]));
    let system = client.done(&request(code::GET_SYSTEM_TOPIC_LIST_FROM_NS, &[])).await;
    assert_eq!(topics(&system), json!(["C", "b"]));
    assert_eq!(json_of(&system)["brokerAddr"], json!("b.test:10911"));
    for unit in [
        code::GET_UNIT_TOPIC_LIST,
        code::GET_HAS_UNIT_SUB_TOPIC_LIST,
        code::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    ] {
        assert_eq!(topics(&client.done(&request(unit, &[])).await), json!([]));
    }

    let queue = |broker: &str| json!({"brokerName": broker, "perm": 6, "readQueueNums": 2, "topicSysFlag": 1, "writeQueueNums": 2});
    let register = |brokers: &[&str]| {
        let queues: Vec<Value> = brokers.iter().map(|broker| queue(broker)).collect();
        request(code::REGISTER_TOPIC_IN_NAMESRV, &[("topic", "new")])
            .with_body(json!({"queueDatas": queues}).to_string().into_bytes())
    };
    assert_eq!(client.ask(&register(&["b", "unknown"])).await.code, 1, "all or nothing");
    assert_eq!(client.route("new").await, Err(17));
    client.done(&register(&["b"])).await;
    assert_eq!(client.route("new").await.unwrap()["queueDatas"][0]["writeQueueNums"], json!(2));
    assert_eq!(topics(&client.done(&request(code::GET_UNIT_TOPIC_LIST, &[])).await), json!(["new"]));

    client.done(&request(code::DELETE_TOPIC_IN_NAMESRV, &[("topic", "new"), ("clusterName", "other")])).await;
    assert!(client.route("new").await.is_ok());
    client.done(&request(code::DELETE_TOPIC_IN_NAMESRV, &[("topic", "new")])).await;
    client.done(&request(code::DELETE_TOPIC_IN_NAMESRV, &[("topic", "never was")])).await;
    assert_eq!(client.route("new").await, Err(17));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_permission_is_wiped_and_added() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    client.done(&Broker::new("b", 2).register()).await;
    let wipe = request(code::WIPE_WRITE_PERM_OF_BROKER, &[("brokerName", "b")]);
    assert_eq!(client.done(&wipe).await.field("wipeTopicCount"), Some("2"));
    assert_eq!(client.route("b_t0").await.unwrap()["queueDatas"][0]["perm"], json!(4));
    let wipe_again = request(code::WIPE_WRITE_PERM_OF_BROKER, &[("brokerName", "b")]);
    assert_eq!(client.done(&wipe_again).await.field("wipeTopicCount"), Some("2"));
    let add = request(code::ADD_WRITE_PERM_OF_BROKER, &[("brokerName", "b")]);
    assert_eq!(client.done(&add).await.field("addTopicCount"), Some("2"));
    assert_eq!(client.route("b_t0").await.unwrap()["queueDatas"][0]["perm"], json!(6));
    for unknown in [&[("brokerName", "nobody")][..], &[]] {
        let wipe = request(code::WIPE_WRITE_PERM_OF_BROKER, unknown);
        assert_eq!(client.done(&wipe).await.field("wipeTopicCount"), Some("0"));
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kv_entries_are_put_read_listed_and_deleted() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    let key = [("namespace", "n"), ("key", "k")];
    let answer = client.ask(&request(code::GET_KV_CONFIG, &key)).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (22, Some("No config item, Namespace: n Key: k")));
    let list = request(code::GET_KVLIST_BY_NAMESPACE, &[("namespace", "n")]);
    assert_eq!(client.ask(&list).await.code, 22);
    client.done(&request(code::PUT_KV_CONFIG, &[key[0], key[1], ("value", "v")])).await;
    assert_eq!(client.done(&request(code::GET_KV_CONFIG, &key)).await.field("value"), Some("v"));
    let list = request(code::GET_KVLIST_BY_NAMESPACE, &[("namespace", "n")]);
    assert_eq!(json_of(&client.done(&list).await), json!({"table": {"k": "v"}}));
    client.done(&request(code::DELETE_KV_CONFIG, &key)).await;
    assert_eq!(client.ask(&request(code::GET_KV_CONFIG, &key)).await.code, 22);
    let list = request(code::GET_KVLIST_BY_NAMESPACE, &[("namespace", "n")]);
    assert_eq!(json_of(&client.done(&list).await), json!({"table": {}}), "an emptied namespace stays known");
    let answer = client.ask(&request(code::PUT_KV_CONFIG, &[("namespace", "n")])).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (1, Some("namespace or key is null")));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_shown_changed_and_guarded() {
    let node = Node::alone_with(|config| {
        let shown = [("listenPort", "9876".to_owned())];
        config.settings = raft_namesrv::handlers::NodeSettings::new(shown, "orderMessageEnable");
    })
    .await;
    let mut client = Client::connect(node.address()).await;
    let update = |text: &str| request(code::UPDATE_NAMESRV_CONFIG, &[]).with_body(text.as_bytes().to_vec());
    let shown =
        |answer: raft_namesrv::wire::RemotingCommand| String::from_utf8(answer.body.to_vec()).unwrap();
    let before = shown(client.done(&request(code::GET_NAMESRV_CONFIG, &[])).await);
    let lines: Vec<&str> = before.lines().collect();
    assert!(lines.is_sorted(), "{before}");
    assert!(before.ends_with('\n') && lines.contains(&"listenPort=9876"), "{before}");

    for listed in ["configStorePath", "kvConfigPath", "rocketmqHome", "configBlackList", "orderMessageEnable"]
    {
        for text in [format!("{listed}=x\n"), format!("enableTopicList=false\n{listed} : x\n")] {
            let answer = client.ask(&update(&text)).await;
            assert_eq!(answer.code, 16, "{text}");
            assert_eq!(answer.remark.as_deref(), Some("Can not update config in black list."));
        }
    }
    for ignored in ["", "listenPort=1\n", "noSuchKey=1\n", "waitSecondsForService=soon\n"] {
        client.done(&update(ignored)).await;
    }
    assert_eq!(shown(client.done(&request(code::GET_NAMESRV_CONFIG, &[])).await), before);
    let revision = node.revision();
    client.done(&update("listenPort=1\n")).await;
    assert_eq!(node.revision(), revision, "what changes nothing writes nothing");

    client.done(&update("enableAllTopicList=false\nserverWorkerThreads=3\n")).await;
    let after = shown(client.done(&request(code::GET_NAMESRV_CONFIG, &[])).await);
    assert!(
        after.contains("enableAllTopicList=false\n") && after.contains("serverWorkerThreads=3\n"),
        "{after}"
    );
    let answer = client.ask(&request(code::GET_ALL_TOPIC_LIST_FROM_NAMESERVER, &[])).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (1, Some("disable")));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_codes_are_not_supported() {
    let node = Node::alone().await;
    let mut client = Client::connect(node.address()).await;
    for unknown in [0, 34, 905, -1, i32::MAX] {
        let answer = client.ask(&request(unknown, &[])).await;
        assert_eq!(answer.code, 3);
        assert_eq!(answer.remark, Some(format!(" request type {unknown} not supported")));
    }
    assert_eq!(node.running.server.counters().requests.others(), 5);
    node.stop().await;
}
