//! Several addresses, some of which do not answer, and where they come from when no flag names them.

use crate::process::{Node, cluster, failure_of, program, run, stdout_of, until};
use std::path::Path;

const ADVICE: &str = "is it running? --addr or NAMESRV_ADDR";

/// An address on which no process listens.
fn unanswered() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// In an emergency the answers of the other addresses count.
#[test]
fn a_unanswered_address_is_named_and_the_others_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    let unanswered = unanswered();
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
        for addresses in [[unanswered.clone(), node.at()], [node.at(), unanswered.clone()]] {
            let output = run(&[command, &["-n", &addresses.join(";")]].concat());
            let stdout = String::from_utf8(output.stdout).unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{command:?}: {stderr}");
            assert!(stderr.contains(&unanswered) && stderr.contains(ADVICE), "{command:?}: {stderr}");
            assert_eq!(stderr.matches(ADVICE).count(), 1, "{command:?}: {stderr}");
            if command[0] == "status" {
                assert!(stdout.contains("leader") && stdout.contains(&unanswered), "{command:?}: {stdout}");
            } else {
                assert_eq!(stdout.as_bytes(), alone.stdout, "{command:?}");
            }
        }
        let (code, stderr) = failure_of(&[command, &["-n", &unanswered]].concat());
        assert!(
            code == 1 && stderr.contains(&unanswered) && stderr.contains(ADVICE),
            "{command:?}: {stderr}"
        );
    }
    for command in [&["settings", "get", "noSuchKey"][..], &["kv", "get", "NS", "other"]] {
        let (code, stderr) = failure_of(&[command, &["-n", &format!("{unanswered},{}", node.at())]].concat());
        let missing =
            stderr.contains("no setting is named noSuchKey") || stderr.contains("no entry NS/other");
        assert!(code == 1 && missing && stderr.contains(&unanswered), "{command:?}: {stderr}");
    }
}

#[test]
fn the_environment_names_the_addresses_and_a_flag_beats_it() {
    let dir = tempfile::tempdir().unwrap();
    let (node, unanswered) = (Node::start(dir.path(), &[]), unanswered());
    let put = ["kv", "put", "NS", "key", "value"];
    let named = program().env("NAMESRV_ADDR", node.at()).args(put).output().unwrap();
    assert!(named.status.success(), "{named:?}");
    assert_eq!(stdout_of(&["kv", "get", "NS", "key", "-n", &node.at()]), "value\n");
    let elsewhere = program().env("NAMESRV_ADDR", &unanswered).args(put).output().unwrap();
    assert!(String::from_utf8(elsewhere.stderr).unwrap().contains(&unanswered));
    let by_flag =
        program().env("NAMESRV_ADDR", &unanswered).args(put).args(["-n", &node.at()]).output().unwrap();
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
    let mut stderr = String::new();
    until("it knows that no node leads", || {
        let output = run(&["status", "-n", &left.at()]);
        stderr = String::from_utf8(output.stderr).unwrap();
        stderr.contains("no node knows a leader")
    });
    assert!(stderr.contains(RUNBOOK), "{stderr}");
    let put = ["kv", "put", "NS", "key", "value", "--timeout-ms", "20000", "-n", &left.at()];
    let (_, stderr) = failure_of(&put);
    assert!(stderr.contains("no leader is known") && stderr.contains(RUNBOOK), "{stderr}");
}
