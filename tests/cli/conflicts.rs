//! Brokers that claim one place.

use crate::client::{Client, registration, request};
use crate::process::{Node, cluster, metric, until};
use raft_namesrv::wire::codes::request as code;

/// What all nodes answer at the same revision.
fn cluster_info(nodes: &[Node]) -> String {
    let ask = |node: &Node| {
        let command = request(code::GET_BROKER_CLUSTER_INFO, &[("__READ_MODE", "local")]);
        let answer = Client::connect(node.address).unwrap().done(&command);
        (answer.field("__REVISION").unwrap().to_owned(), answer.body)
    };
    let mut answers = Vec::new();
    until("all are at one revision", || {
        answers = nodes.iter().map(ask).collect();
        answers.iter().all(|(revision, _)| *revision == answers[0].0)
    });
    assert!(answers.iter().all(|(_, body)| *body == answers[0].1), "{answers:?}");
    String::from_utf8(answers[0].1.to_vec()).unwrap()
}

#[test]
fn two_addresses_under_one_name_and_id_are_told_counted_and_the_same_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = cluster(dir.path());
    let mut clients: Vec<_> = nodes.iter().map(|node| Client::connect(node.address).unwrap()).collect();
    // Both pairs quarrel at the same time, and each is told of.
    let pairs =
        [("one", ["10.0.0.1:10911", "10.0.0.2:10911"]), ("two", ["10.0.0.3:10911", "10.0.0.4:10911"])];
    for round in 0..6 {
        for (name, addresses) in pairs {
            let (holds, other) = (addresses[round % 2], addresses[(round + 1) % 2]);
            for client in clients.iter_mut().skip(round % 2) {
                client.done(&registration(name, "0", holds, &["t0", "t1"]));
            }
            let info = cluster_info(&nodes);
            assert!(info.contains(holds) && !info.contains(other), "round {round}: {info}");
        }
    }
    let count = |node: &Node, kind: &str| {
        metric::<u64>(node, &format!("rocketmq_namesrv_conflicts_total{{kind=\"{kind}\"}}"))
    };
    for node in &nodes {
        until("five changes of each", || count(node, "address") == 10);
        assert_eq!(count(node, "cluster"), 0);
    }
    for (name, [first, second]) in pairs {
        let line = format!("broker={name} id=0 holder={first} (C) claimant={second} (C)");
        until("the leader has said so", || nodes.iter().any(|node| node.has_logged(&line)));
    }
}
