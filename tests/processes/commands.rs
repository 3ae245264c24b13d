//! The commands that show and change things, against one node.

use crate::client::{Client, registration, request};
use crate::process::{Node, Play, failure_of, get, json_of, metric, program, stdout_of, until};
use raft_namesrv::wire::codes::request as code;
use std::time::{Duration, Instant};

#[test]
fn brokers_topics_and_routes_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    let at = node.at();
    let _play = Play::start(&at, &["--brokers", "2", "--topics", "3"]);
    until("the brokers are there", || crate::process::brokers(&at).len() == 2);

    let brokers = stdout_of(&["brokers", "-n", &at]);
    assert!(brokers.contains("play-broker-0") && brokers.contains("127.0.0.1:30001"), "{brokers}");
    let listed = json_of(&["brokers", "--json", "-n", &at]);
    assert_eq!(listed[0]["topics"], 3);
    assert_eq!(json_of(&["brokers", "--json", "--cluster", "other", "-n", &at]).as_array().unwrap().len(), 0);

    assert_eq!(stdout_of(&["topics", "-n", &at]), "play-topic-0\nplay-topic-1\nplay-topic-2\n");
    assert_eq!(stdout_of(&["topics", "--cluster", "play-cluster", "-n", &at]).lines().count(), 3);
    assert_eq!(stdout_of(&["topics", "--cluster", "other", "-n", &at]), "");

    let route = stdout_of(&["route", "play-topic-1", "-n", &at]);
    assert!(route.contains("play-broker-1") && route.contains("read+write"), "{route}");
    assert!(metric::<u64>(&node, "rocketmq_namesrv_route_cache_bytes") > 100);
    let route = json_of(&["route", "play-topic-1", "--linearizable", "--json", "-n", &at]);
    assert_eq!(route[0]["route"]["queueDatas"].as_array().unwrap().len(), 2, "{route}");
    assert!(route[0]["revision"].as_str().unwrap().parse::<u64>().unwrap() > 0);
}

/// Tenths of a second in the column of a table's only row.
fn tenths_in(table: &str, column: &str) -> u64 {
    let (header, row) = table.trim_end().split_once('\n').unwrap();
    let (seconds, _) = row[header.find(column).unwrap()..].split_once(" s").unwrap();
    seconds.trim().replace('.', "").parse().unwrap()
}

#[test]
fn the_idle_time_of_a_broker_grows_until_its_next_heartbeat() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    let at = node.at();
    let mut broker = Client::connect(node.address).unwrap();
    broker.done(&registration("g", "0", "10.0.0.1:10911", &["t0", "t1"]));
    let idle_ms = || json_of(&["brokers", "--json", "-n", &at])[0]["idleMs"].as_u64().unwrap();
    until("it was idle for a second", || idle_ms() >= 1_000);
    let before = idle_ms();
    let table = stdout_of(&["brokers", "-n", &at]);
    let after = idle_ms();
    assert!((before / 100..=after / 100).contains(&tenths_in(&table, "IDLE")), "{before}, {after}: {table}");

    let identity =
        [("brokerName", "g"), ("brokerId", "0"), ("brokerAddr", "10.0.0.1:10911"), ("clusterName", "C")];
    until("its heartbeat has arrived", || {
        broker.send(&request(code::BROKER_HEARTBEAT, &identity).oneway()).unwrap();
        idle_ms() < 1_000 && tenths_in(&stdout_of(&["brokers", "-n", &at]), "IDLE") < 10
    });
}

#[test]
fn why_shows_when_a_topic_came_and_that_its_broker_left() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    let at = node.at();
    let play = Play::start(&at, &["--brokers", "1", "--topics", "2"]);
    until("the broker is there", || crate::process::brokers(&at).len() == 1);
    let text = stdout_of(&["why", "play-topic-0", "-n", &at]);
    assert!(text.starts_with("topic play-topic-0 is on play-broker-0 ("), "{text}");

    drop(play);
    until("the broker is gone", || crate::process::brokers(&at).is_empty());
    let why = json_of(&["why", "play-topic-0", "--json", "-n", &at]);
    assert_eq!(why["known"], false, "{why}");
    let kinds: Vec<&str> =
        why["records"].as_array().unwrap().iter().map(|r| r["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["brokerRegistered", "topicNew", "brokerRemoved", "brokerNameGone", "topicGone"]);
    assert!(why["records"][0]["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{why}");
    let text = stdout_of(&["why", "127.0.0.1:30000", "-n", &at, "--limit", "1"]);
    assert!(text.contains("it closed its last connection") && text.contains("1 older records"), "{text}");

    let (code, text) = failure_of(&["why", "no-such-topic", "-n", &at]);
    assert_eq!(code, 1);
    assert!(text.contains("nothing is known of no-such-topic; the history begins at 20"), "{text}");
}

#[test]
fn an_unknown_topic_and_a_closed_address_are_failures_that_name_them() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    let (code, text) = failure_of(&["route", "no-such-topic", "-n", &node.at()]);
    assert_eq!(code, 1);
    assert!(text.contains("no-such-topic") && text.contains(&node.at()), "{text}");

    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for command in ["status", "topics", "brokers", "settings"] {
        let (code, text) = failure_of(&[command, "-n", &closed, "--timeout-ms", "500"]);
        assert_eq!(code, 1, "{command}: {text}");
        assert!(text.contains(&closed) || text.contains("127.0.0.1"), "{command}: {text}");
    }
    assert_eq!(failure_of(&["status", "-n", "a:1,a:1"]).0, 2);
}

#[test]
fn kv_entries_come_and_go_and_move_as_javas_file() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    let at = node.at();
    stdout_of(&["kv", "put", "-n", &at, "NS1", "k1", "v1"]);
    let put = json_of(&["kv", "put", "--json", "-n", &at, "NS2", "k2", "v2"]);
    assert_eq!(put, serde_json::json!({"namespace": "NS2", "key": "k2", "value": "v2"}));
    assert_eq!(stdout_of(&["kv", "get", "-n", &at, "NS1", "k1"]), "v1\n");
    assert_eq!(json_of(&["kv", "list", "--json", "-n", &at])["NS2"]["k2"], "v2");
    assert_eq!(json_of(&["kv", "list", "--json", "-n", &at, "NS1"])["NS1"]["k1"], "v1");

    let file = dir.path().join("kvConfig.json");
    stdout_of(&["kv", "export", "-n", &at, file.to_str().unwrap()]);
    let exported: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(exported["configTable"]["NS1"]["k1"], "v1");

    let deleted = json_of(&["kv", "delete", "--json", "-n", &at, "NS1", "k1"]);
    assert_eq!(deleted, serde_json::json!({"namespace": "NS1", "key": "k1"}));
    let (code, text) = failure_of(&["kv", "get", "-n", &at, "NS1", "k1"]);
    assert_eq!(code, 1);
    assert!(text.contains("NS1/k1"), "{text}");
    assert_eq!(stdout_of(&["kv", "import", "-n", &at, file.to_str().unwrap()]), "2 entries put\n");
    assert_eq!(stdout_of(&["kv", "get", "-n", &at, "NS1", "k1"]), "v1\n");
    assert_eq!(stdout_of(&["kv", "delete", "-n", &at, "NS1", "k1"]), "");

    std::fs::write(&file, "{}").unwrap();
    let (code, text) = failure_of(&["kv", "import", "-n", &at, file.to_str().unwrap()]);
    assert_eq!(code, 1);
    assert!(text.contains("kvConfig.json"), "{text}");
}

#[test]
fn replicated_settings_change_and_others_say_that_they_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    let at = node.at();
    assert_eq!(stdout_of(&["settings", "get", "enableTopicList", "-n", &at]), "enableTopicList=true\n");
    stdout_of(&["settings", "set", "enableTopicList", "false", "-n", &at]);
    assert_eq!(stdout_of(&["settings", "get", "enableTopicList", "-n", &at]), "enableTopicList=false\n");

    for (key, value, why) in [
        ("listenPort", "1", "still"),
        ("noSuchKey", "1", "no setting is named noSuchKey"),
        ("waitSecondsForService", "soon", "still"),
        ("configStorePath", "/tmp/x", "code 16"),
    ] {
        let (code, text) = failure_of(&["settings", "set", key, value, "-n", &at]);
        assert_eq!(code, 1, "{key}: {text}");
        assert!(text.contains(why), "{key}: {text}");
    }
    assert_eq!(failure_of(&["settings", "get", "noSuchKey", "-n", &at]).0, 1);
}

#[test]
fn probes_and_metrics_answer_on_the_http_port() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    let http = node.http();
    assert_eq!(stdout_of(&["probe", "--http", &http]), "ready\n");
    assert_eq!(stdout_of(&["probe", "--live", "--http", &http]), "alive\n");
    assert_eq!(json_of(&["probe", "--json", "--http", &http])["ok"], true);

    let metrics = get(&http, "/metrics");
    assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
    for line in
        ["rocketmq_namesrv_ready 1", "rocketmq_namesrv_leading 1", "# HELP rocketmq_namesrv_requests "]
    {
        assert!(metrics.lines().any(|l| l.starts_with(line)), "{line} in {metrics}");
    }
    for counted in [
        "route_cache_bytes",
        "route_cache_lookups_total{result=\"miss\"}",
        "requests_in_flight_body_bytes",
        "min_broker_id_notice_sends_total{result=\"sent\"}",
        "min_broker_id_notice_sends_total{result=\"failed\"}",
        "sessions_refused_total",
        "state_diverged",
    ] {
        assert_eq!(metric::<u64>(&node, &format!("rocketmq_namesrv_{counted}")), 0, "{counted}");
    }
    assert!(get(&http, "/no-such-path").starts_with("HTTP/1.1 404"));

    let (code, text) = failure_of(&["transfer", "--to", "7", "-n", &node.at()]);
    assert_eq!(code, 1);
    assert!(text.contains('7'), "{text}");

    node.kill();
    assert_eq!(failure_of(&["probe", "--http", &http]).0, 1);
}

#[test]
fn a_node_joins_is_promoted_and_the_first_one_is_removed() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let first = Node::start(dirs[0].path(), &[]);
    stdout_of(&["kv", "put", "-n", &first.at(), "NS", "key", "value"]);
    let contact = format!("1={}", first.peers());
    let second = Node::start(dirs[1].path(), &["--node-id", "2", "--members", &contact]);
    let (code, text) = failure_of(&["probe", "--http", &second.http()]);
    assert!(code == 1 && text.contains("waiting"), "{text}");

    let new = format!("2={}", second.peers());
    let added = json_of(&["members", "add", &new, "--json", "-n", &first.at()]);
    assert_eq!((added[1]["id"].as_u64(), added[1]["voter"].as_bool()), (Some(2), Some(false)), "{added}");
    // Both at the same node here: the request with its peer, and the change.
    let log = first.logged_until("members changed");
    let request = log.iter().find(|line| line.contains("asked to change the members")).unwrap();
    assert!(request.contains("peer=127.0.0.1:") && request.contains(&second.peers()), "{request}");
    let changed = log.last().unwrap();
    let what = format!("asked at node 1: node 2 at {} joins as a learner", second.peers());
    assert!(changed.contains("INFO") && changed.contains(&what), "{changed}");
    until("the learner serves what was there before it", || {
        program_succeeds(&["kv", "get", "-n", &second.at(), "NS", "key"])
            && program_succeeds(&["members", "promote", "2", "-n", &first.at()])
    });
    let listed = stdout_of(&["members", "list", "-n", &second.at()]);
    assert_eq!(listed.matches("voter").count(), 2, "{listed}");

    let (code, text) = failure_of(&["members", "remove", "1", "-n", &first.at()]);
    assert_eq!(code, 1);
    assert!(text.contains("transfer"), "a leader is not removed, and what to do is said: {text}");
    assert_eq!(stdout_of(&["transfer", "--to", "2", "-n", &first.at()]), "node 2 leads\n");
    stdout_of(&["members", "remove", "1", "-n", &second.at()]);
    until("the removed node no longer serves", || !program_succeeds(&["probe", "--http", &first.http()]));
    assert_eq!(stdout_of(&["kv", "get", "-n", &second.at(), "NS", "key"]), "value\n");
}

/// An operator asks because something is wrong: the node that hangs must not hold the answer up.
#[test]
fn members_are_shown_within_one_deadline_though_a_node_hangs() {
    /// Far more than the deadline, on a busy machine; asked one after the other it was a multiple of 10 s.
    const TIME_MAX: Duration = Duration::from_secs(8);
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [hangs, answers] = dirs.each_ref().map(|dir| Node::start(dir.path(), &[]));
    hangs.pause(true);
    let both = format!("{},{}", hangs.at(), answers.at());
    let begun = Instant::now();
    let listed = stdout_of(&["members", "list", "-n", &both, "--timeout-ms", "10000"]);
    assert!(
        listed.contains(&answers.peers()) && begun.elapsed() < TIME_MAX,
        "{:?}: {listed}",
        begun.elapsed()
    );
    for action in [&["list"][..], &["remove", "2"], &["add", "2=127.0.0.1:1"]] {
        let begun = Instant::now();
        let (code, text) =
            failure_of(&[&["members"], action, &["-n", &hangs.at(), "--timeout-ms", "1000"]].concat());
        assert_eq!(code, 1, "{action:?}: {text}");
        assert!(begun.elapsed() < TIME_MAX, "{action:?}: {:?}", begun.elapsed());
    }
    // A change goes to the node that answers.
    let (_, text) = failure_of(&["members", "remove", "7", "-n", &both, "--timeout-ms", "10000"]);
    assert!(text.contains(&answers.http()) && text.contains('7'), "{text}");
}

/// Java takes both without a word, and so does a node; but here an operator can see them.
#[test]
fn addresses_that_no_client_reaches_and_heartbeats_of_unknown_brokers_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    let mut client = Client::connect(node.address).unwrap();
    let count = |name: &str| metric::<u64>(&node, &format!("rocketmq_namesrv_{name}_total"));
    for _ in 0..3 {
        client.done(&registration("a", "0", "0.0.0.0:10911", &["t", "u"]));
    }
    client.done(&registration("b", "0", "10.0.0.1:10911", &["t", "u"]));
    assert_eq!(count("registrations_implausible_address"), 3);
    let log = node.logged_until("address=10.0.0.1:10911");
    let warned: Vec<_> = log.iter().filter(|line| line.contains("no client can connect")).collect();
    assert!(warned.len() == 1 && warned[0].contains("0.0.0.0:10911"), "{log:#?}");

    let heartbeat = |address: &str| {
        let fields = [("brokerName", "b"), ("brokerId", "0"), ("clusterName", "C"), ("brokerAddr", address)];
        request(code::BROKER_HEARTBEAT, &fields).oneway()
    };
    let (known, unknown) = (heartbeat("10.0.0.1:10911"), heartbeat("10.0.0.2:10911"));
    // The later ones repeat the bytes of the first.
    for command in [&known, &known, &unknown, &unknown, &unknown] {
        client.send(command).unwrap();
    }
    client.done(&request(code::GET_BROKER_CLUSTER_INFO, &[]));
    assert_eq!(count("heartbeats_unknown"), 3);
}

fn program_succeeds(arguments: &[&str]) -> bool {
    program().args(arguments).output().unwrap().status.success()
}
