//! Several addresses of nodes, some of which do not answer, and where the commands find them without a flag.

use crate::process::{Node, cluster, failure_of, program, run, stdout_of, until};
use std::path::Path;

const ADVICE: &str = "is it running? --addr or NAMESRV_ADDR";

/// An address on which no process listens.
fn closed_address() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// In an emergency an operator wants the answers of the other nodes.
#[test]
fn a_closed_address_is_named_and_the_others_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    let closed = closed_address();
    stdout_of(&["kv", "put", "NS", "key", "value", "-n", &node.at()]);
    let commands: [&[&str]; 6] = [
        &["topics", "--json"],
        &["settings", "get", "enableTopicList"],
        &["settings", "--json"],
        &["kv", "get", "NS", "key"],
        &["status"],
        &["status", "--json"],
    ];
    for command in commands {
        let alone = run(&[command, &["-n", &node.at()]].concat());
        assert!(alone.status.success(), "{command:?}: {alone:?}");
        for addresses in [[closed.clone(), node.at()], [node.at(), closed.clone()]] {
            let output = run(&[command, &["-n", &addresses.join(";")]].concat());
            let stdout = String::from_utf8(output.stdout).unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{command:?}: {stderr}");
            assert!(stderr.contains(&closed) && stderr.contains(ADVICE), "{command:?}: {stderr}");
            assert_eq!(stderr.matches(ADVICE).count(), 1, "{command:?}: {stderr}");
            if command[0] == "status" {
                assert!(stdout.contains("leader") && stdout.contains(&closed), "{command:?}: {stdout}");
            } else {
                assert_eq!(stdout.as_bytes(), alone.stdout, "{command:?}");
            }
        }
        let (code, stderr) = failure_of(&[command, &["-n", &closed]].concat());
        assert!(code == 1 && stderr.contains(&closed) && stderr.contains(ADVICE), "{command:?}: {stderr}");
    }
    for command in [&["settings", "get", "noSuchKey"][..], &["kv", "get", "NS", "other"]] {
        let (code, stderr) = failure_of(&[command, &["-n", &format!("{closed},{}", node.at())]].concat());
        let missing =
            stderr.contains("no setting is named noSuchKey") || stderr.contains("no entry NS/other");
        assert!(code == 1 && missing && stderr.contains(&closed), "{command:?}: {stderr}");
    }
}

#[test]
fn the_environment_names_the_addresses_and_a_flag_beats_it() {
    let dir = tempfile::tempdir().unwrap();
    let (node, closed) = (Node::start(dir.path(), &[]), closed_address());
    let put = ["kv", "put", "NS", "key", "value"];
    let named = program().env("NAMESRV_ADDR", node.at()).args(put).output().unwrap();
    assert!(named.status.success(), "{named:?}");
    assert_eq!(stdout_of(&["kv", "get", "NS", "key", "-n", &node.at()]), "value\n");
    let not_running = program().env("NAMESRV_ADDR", &closed).args(put).output().unwrap();
    assert!(String::from_utf8(not_running.stderr).unwrap().contains(&closed));
    let by_flag = program().env("NAMESRV_ADDR", &closed).args(put).args(["-n", &node.at()]).output().unwrap();
    assert!(by_flag.status.success(), "{by_flag:?}");
}

#[test]
fn without_a_leader_the_runbook_is_named() {
    const RUNBOOK: &str = "docs/runbooks/lost-quorum.md";
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(RUNBOOK).exists());
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path());
    let left = nodes.pop().unwrap();
    drop(nodes);
    let mut text = String::new();
    until("it knows that there is no leader", || {
        let output = run(&["status", "-n", &left.at()]);
        text = String::from_utf8(output.stderr).unwrap();
        text.contains("no node knows a leader")
    });
    assert!(text.contains(RUNBOOK), "{text}");
    let put = ["kv", "put", "NS", "key", "value", "--timeout-ms", "20000", "-n", &left.at()];
    let (_, text) = failure_of(&put);
    assert!(text.contains("no leader is known") && text.contains(RUNBOOK), "{text}");
}
