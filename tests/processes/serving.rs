//! `serve`: start, stop, restart, and why it refuses.

use crate::process::{Node, failure_of, json_of, program, run, stdout_of};
use std::time::{Duration, Instant};

#[test]
fn it_prints_the_line_of_java_serves_and_ends_with_zero() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    assert_eq!(node.boot_line, "The Name Server boot success. serializeType=JSON\n");
    let status = json_of(&["status", "--json", "-n", &node.at()]);
    assert_eq!(status[0]["ready"], true, "{status}");
    assert_eq!(status[0]["leading"], true, "{status}");
    let begun = Instant::now();
    assert_eq!(node.terminate(), 0);
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
}

#[test]
fn what_was_acknowledged_is_there_after_kill_9_and_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    stdout_of(&["kv", "put", "-n", &node.at(), "NS", "key", "välue with spaces"]);
    let before = json_of(&["status", "--json", "--hash", "-n", &node.at()]);
    node.kill();
    let node = Node::start(dir.path(), &[]);
    assert_eq!(stdout_of(&["kv", "get", "-n", &node.at(), "NS", "key"]), "välue with spaces\n");
    let after = json_of(&["status", "--json", "--hash", "-n", &node.at()]);
    assert_eq!(before[0]["clusterId"], after[0]["clusterId"]);
    assert!(after[0]["term"].as_u64() > before[0]["term"].as_u64());
}

/// Only its ports come from outside, since another process may have the default ones.
#[test]
fn a_node_without_options_soon_serves_from_a_directory_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = program();
    command.arg("serve").current_dir(dir.path()).env("RAFT_NAMESRV_LISTEN", "127.0.0.1:0");
    let begun = Instant::now();
    let node = Node::start_as(command);
    stdout_of(&["kv", "put", "-n", &node.at(), "NS", "key", "value"]);
    assert_eq!(stdout_of(&["kv", "get", "-n", &node.at(), "NS", "key"]), "value\n");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let made: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(made, ["data"]);
}

#[test]
fn the_log_is_json_and_has_the_levels_that_a_flag_asks_for() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let log_at = |level| {
        let mut command = program();
        command.env("RAFT_NAMESRV_LOG", level).args(["serve", "--log-format", "json", "--listen", &address]);
        let output = command.arg("--data").arg(dir.path()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        // The last line is why the command failed.
        let (log, why) = stderr.trim_end().rsplit_once('\n').unwrap_or(("", &stderr));
        assert!(why.contains(&address), "{stderr}");
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<serde_json::Value>>()
    };
    let lines = log_at("info");
    assert!(lines.iter().all(|line| line["level"] == "INFO"), "{lines:#?}");
    let messages: Vec<&str> = lines.iter().map(|line| line["fields"]["message"].as_str().unwrap()).collect();
    // What has its default is said at debug only.
    let port = format!("setting listenPort={}", taken.local_addr().unwrap().port());
    assert!(messages.contains(&port.as_str()) && !messages.contains(&"setting nodeId=1"), "{messages:#?}");
    let has = |line: &serde_json::Value, text: &str| line["fields"]["message"] == text;
    assert!(log_at("debug").iter().any(|line| has(line, "setting nodeId=1") && line["level"] == "DEBUG"));
    assert_eq!(log_at("warn").len(), 0);
}

/// A script that waits for Java's line must not see it, and must not wait.
#[test]
fn a_taken_port_is_exit_code_3_and_names_the_address() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let ports = ["--listen", "--peer-listen", "--http-listen"];
    for port in ports {
        let mut flags = vec!["serve", "--data", data, port, &address];
        ports.iter().filter(|other| **other != port).for_each(|other| flags.extend([*other, "127.0.0.1:0"]));
        let begun = Instant::now();
        let output = run(&flags);
        let time = begun.elapsed();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{port}: {text}");
        assert!(text.contains(&address), "{port}: {text}");
        assert!(output.stdout.is_empty(), "{port}: {:?}", String::from_utf8_lossy(&output.stdout));
        assert!(time < Duration::from_secs(2), "{port}: {time:?}");
    }
}

/// What it answers by then does not matter: without its log nothing can be acknowledged, and a supervisor must be able to
/// tell this end from a refusal.
#[test]
fn a_log_that_cannot_be_written_any_more_is_exit_code_4() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start_with_writes_that_fail(dir.path());
    stdout_of(&["kv", "put", "-n", &node.at(), "NS", "key", "before"]);
    node.limit_files_to(1);
    let after = run(&["kv", "put", "-n", &node.at(), "NS", "key", "after"]);
    assert!(!after.status.success(), "acknowledged without a log: {after:?}");
    let (code, log) = node.ended();
    assert_eq!(code, 4, "{log:#?}");
    let last = log.last().unwrap();
    let parts = ["raft-namesrv: the Raft core has died", "Write Log", "File too large"];
    assert!(parts.iter().all(|part| last.contains(part)), "{log:#?}");

    let node = Node::start(dir.path(), &[]);
    assert_eq!(stdout_of(&["kv", "get", "-n", &node.at(), "NS", "key"]), "before\n");
}

#[test]
fn a_directory_of_another_node_or_process_is_exit_code_1() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let node = Node::start(dir.path(), &[]);
    let (code, text) = failure_of(&["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains(data), "{text}");
    assert_eq!(node.terminate(), 0);
    let (code, text) = failure_of(&["serve", "--data", data, "--listen", "127.0.0.1:0", "--node-id", "2"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains(data) && text.contains('2'), "{text}");
}

#[test]
fn wrong_arguments_are_exit_code_2_and_wrong_settings_1() {
    assert_eq!(failure_of(&["serve", "--members", "1=a:1,1=b:2"]).0, 2);
    assert_eq!(failure_of(&["serve", "--listen", "nowhere"]).0, 2);
    assert_eq!(failure_of(&["no-such-command"]).0, 2);
    let (code, text) = failure_of(&["serve", "--members", "1=a:1,2=b:2"]);
    assert_eq!(code, 1);
    assert!(text.contains("--node-id"), "{text}");
    let (code, text) = failure_of(&["serve", "-c", "/does/not/exist"]);
    assert_eq!(code, 1);
    assert!(text.contains("/does/not/exist"), "{text}");
}

#[test]
fn javas_file_is_read_and_dash_p_prints_what_holds() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("namesrv.conf");
    std::fs::write(&file, "listenPort=19876\nbindAddress=127.0.0.1\norderMessageEnable=true\n").unwrap();
    let printed = stdout_of(&["serve", "-p", "-c", file.to_str().unwrap()]);
    assert!(printed.contains("\nbindAddress=127.0.0.1\nlistenPort=19876\n"), "{printed}");
    assert!(printed.lines().any(|line| line == "peerListen=127.0.0.1:19976"), "{printed}");
    // The environment stands between the flag and the file.
    let mut command = program();
    command.env("RAFT_NAMESRV_LISTEN", "127.0.0.2:1").args(["serve", "-p", "-c", file.to_str().unwrap()]);
    let printed = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(printed.contains("\nbindAddress=127.0.0.2\nlistenPort=1\n"), "{printed}");

    let node = Node::start(&dir.path().join("data"), &["-c", file.to_str().unwrap()]);
    let held = stdout_of(&["settings", "-n", &node.at()]);
    assert!(held.lines().any(|line| line == "orderMessageEnable=true"), "{held}");
    // The cluster's value changes; the file's value is still shown.
    stdout_of(&["settings", "set", "orderMessageEnable", "false", "-n", &node.at()]);
    let held = stdout_of(&["settings", "-n", &node.at()]);
    assert!(held.lines().any(|line| line == "orderMessageEnable=false"), "{held}");
    assert!(held.lines().any(|line| line == "configFile.orderMessageEnable=true"), "{held}");
}

#[test]
fn the_binary_header_is_chosen_by_a_flag() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &["--serialize-type", "rocketmq"]);
    assert_eq!(node.boot_line, "The Name Server boot success. serializeType=ROCKETMQ\n");
    assert_eq!(stdout_of(&["topics", "-n", &node.at()]), "");
}

/// Every setting that `-p` prints is named, with its default, and the file takes it under that name.
#[test]
fn the_help_of_serve_knows_all_settings() {
    let help = stdout_of(&["serve", "--help"]);
    let printed = stdout_of(&["serve", "-p"]);
    for line in printed.lines() {
        assert!(help.contains(line), "{line} in {help}");
    }
    assert!(printed.lines().count() > 25, "{printed}");
    assert!(help.contains("RAFT_NAMESRV_LOG says how much"), "{help}");

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("printed.conf");
    let with_flags = ["--node-id", "7", "--members", "7=a:1,8=b:2", "--listen", "127.0.0.1:1", "--data", "d"];
    let printed = stdout_of(&[&["serve", "-p"], &with_flags[..]].concat());
    std::fs::write(&file, &printed).unwrap();
    assert_eq!(stdout_of(&["serve", "-p", "-c", file.to_str().unwrap()]), printed);
}

#[test]
fn help_and_completions_are_there() {
    let help = stdout_of(&["--help"]);
    for command in
        ["serve", "dev", "play", "status", "route", "topics", "brokers", "kv", "settings", "transfer"]
    {
        assert!(help.contains(command), "{command} in {help}");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout_of(&["completions", shell]).contains("raft-namesrv"));
    }
    assert!(run(&["--version"]).status.success());
}
