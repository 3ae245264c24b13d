//! Conflicts: two brokers claim one place.

use crate::client::{Client, registration, registration_in, request};
use crate::process::{Node, cluster, history, metric, until};
use raft_namesrv::wire::codes::request as code;

/// The answer of all nodes at one revision.
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

/// Conflicts that a node has applied since it started.
fn count(node: &Node, kind: &str) -> u64 {
    metric(node, &format!("rocketmq_namesrv_conflicts_total{{kind=\"{kind}\"}}"))
}

/// Asserts that the history of every node has the same conflicts of a broker name, so many, with both addresses each.
fn assert_histories(nodes: &[Node], name: &str, [first, second]: [&str; 2], times: u64) {
    let first_history = history(&nodes[0], name, "conflict");
    for node in nodes {
        assert_eq!(
            history(node, name, "conflict"),
            first_history,
            "{name}: the histories of two nodes differ"
        );
    }
    let claims = |line: &String| line.contains(first) && line.contains(second);
    assert!(first_history.len() as u64 == times && first_history.iter().all(claims), "{first_history:#?}");
}

#[test]
fn two_addresses_under_one_name_and_id_are_logged_counted_and_the_same_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = cluster(dir.path());
    let mut clients: Vec<_> = nodes.iter().map(|node| Client::connect(node.address).unwrap()).collect();
    // Both pairs are in conflict at the same time, and the leader logs each.
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
    for node in &nodes {
        until("five changes of each", || count(node, "address") == 10);
        assert_eq!(count(node, "cluster"), 0);
    }
    for (name, [first, second]) in pairs {
        assert_histories(&nodes, name, [first, second], 5);
        let line = format!("broker={name} id=0 holder={first} (C) claimant={second} (C)");
        until("the leader has logged it", || nodes.iter().any(|node| node.has_logged(&line)));
    }
}

#[test]
fn one_name_in_two_clusters_is_logged_once_counted_and_the_same_everywhere() {
    const CLUSTERS: [&str; 2] = ["C1", "C2"];
    const ROUNDS: usize = 4;
    let dir = tempfile::tempdir().unwrap();
    let nodes = cluster(dir.path());
    let mut clients: Vec<_> = nodes.iter().map(|node| Client::connect(node.address).unwrap()).collect();
    let (own_ids, same_id) = (["10.0.0.1:10911", "10.0.0.2:10911"], ["10.0.0.3:10911", "10.0.0.4:10911"]);
    for round in 0..ROUNDS {
        for (at, cluster) in CLUSTERS.into_iter().enumerate() {
            let id = at.to_string();
            // Under ids of their own both stay, and under one id each takes the other's place.
            for step in 0..nodes.len() {
                let client = &mut clients[(round + step) % nodes.len()];
                client.done(&registration_in(cluster, "own_ids", &id, own_ids[at], &["t0", "t1"]));
                client.done(&registration_in(cluster, "same", "0", same_id[at], &["t0", "t1"]));
            }
            let info = cluster_info(&nodes);
            let shown = |address: &str| info.contains(address);
            assert!(
                shown(own_ids[at]) && (round == 0 || own_ids.into_iter().all(shown)),
                "round {round}: {info}"
            );
            assert!(shown(same_id[at]) && !shown(same_id[1 - at]), "round {round}: {info}");
        }
    }
    let changes = 2 * ROUNDS as u64 - 1;
    for node in &nodes {
        until("the second of the one, and each change of the other", || {
            count(node, "cluster") == 1 + changes
        });
        assert_eq!(count(node, "address"), changes);
    }
    assert_histories(&nodes, "own_ids", own_ids, 1);
    assert_histories(&nodes, "same", same_id, 2 * changes);

    clients[0].done(&registration("last", "0", "10.0.0.9:10911", &["t0", "t1"]));
    let mut lines = Vec::new();
    until("the leader has logged all before", || {
        lines.extend(nodes.iter().flat_map(Node::logged));
        lines.iter().any(|line| line.contains("broker registered") && line.contains("broker=last"))
    });
    // A leader logs conflicts of one name once per 10 s; one address after the other is two conflicts in one entry.
    let conflicts = |name: &str| -> Vec<_> {
        let name = format!("broker={name} ");
        lines.iter().filter(|line| line.contains("conflict: ") && line.contains(&name)).collect()
    };
    let logged = conflicts("own_ids");
    let parts = [
        "WARN",
        "one broker name in two clusters",
        "holder=10.0.0.1:10911 (C1)",
        "claimant=10.0.0.2:10911 (C2)",
    ];
    assert!(logged.len() == 1 && parts.iter().all(|part| logged[0].contains(part)), "{logged:#?}");
    let logged = conflicts("same");
    let both = "holder=10.0.0.3:10911 (C1) claimant=10.0.0.4:10911 (C2)";
    assert!(logged.first().is_some_and(|line| line.contains(both)), "{logged:#?}");
}
