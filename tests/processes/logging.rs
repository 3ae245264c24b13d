//! What a node logs, and that the log never holds it up.

use crate::client::{Client, registration, request};
use crate::process::{
    Node, PATIENCE, Play, cluster, follow, free_address, leader, limit_files_to, metric_at, program,
    program_whose_writes_may_fail, run, send_sigterm, stdout_of, until, until_there_are,
};
use raft_namesrv::wire::codes::request as code;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A name that forges a line of the log and clears the operator's screen.
const HOSTILE: &str = "t\n2026-01-01T00:00:00Z ERROR forged\u{1b}[2J\u{202e}x";

/// Killed when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Fails when the test has ended it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Registers brokers: each one is about twenty lines, and all together are far more than a pipe and the queue take.
fn cause_lines(client: &mut Client) {
    let topics: Vec<String> = (0..30).map(|topic| format!("topic-{topic}")).collect();
    let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
    for broker in 1..=200 {
        client.done(&registration(&format!("b{broker}"), "0", &format!("10.0.0.1:{broker}"), &topics));
    }
}

/// Asks a node for a transfer, and does not wait for the answer.
fn transfer_leadership(http: &str) -> TcpStream {
    let mut stream = TcpStream::connect(http).unwrap();
    let head =
        "POST /api/v1/transfer HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 11";
    write!(stream, "{head}\r\n\r\n{{\"to\":null}}").unwrap();
    stream
}

/// An operator who pipes the log into a program that hangs must not lose the nameserver.
#[test]
fn a_node_whose_log_is_not_read_goes_on_answering_and_stops() {
    let dir = tempfile::tempdir().unwrap();
    let [listen, http] = [free_address(), free_address()];
    let mut command = program();
    command.args(["serve", "--listen", &listen, "--peer-listen", "127.0.0.1:0", "--http-listen", &http]);
    command.arg("--data").arg(dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut node = Process(command.spawn().unwrap());
    BufReader::new(node.0.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();

    let mut client = Client::connect(listen.parse().unwrap()).unwrap();
    cause_lines(&mut client);
    // What logs by the way, such as a request at the HTTP port, would block one thread after the other.
    let asked: Vec<_> = (0..8).map(|_| transfer_leadership(&http)).collect();
    client.done(&request(code::GET_BROKER_CLUSTER_INFO, &[]));
    until("lines are dropped", || metric_at::<u64>(&http, "rocketmq_namesrv_log_lines_dropped_total") > 0);

    drop(asked);

    // Once it is read again it goes on, and says what is missing.
    let log = follow(node.0.stderr.take().unwrap());
    let mut notice = None;
    let deadline = Instant::now() + PATIENCE;
    for number in 0.. {
        if let Ok(line) = log.recv_timeout(Duration::from_millis(50)) {
            notice = Some(line).filter(|line| line.contains("log lines dropped"));
        } else {
            // The line about dropped ones comes with another line.
            client.done(&registration("c", "0", "10.0.0.2:1", &["u", &format!("more-{number}")]));
        }
        if notice.is_some() || Instant::now() > deadline {
            break;
        }
    }
    assert!(notice.is_some_and(|line| line.contains(" WARN ")));
    send_sigterm(&node.0);
    assert_eq!(node.0.wait().unwrap().code(), Some(0));
}

/// A supervisor starts a node again that has ended, so its last words must not wait for a pipe.
#[test]
fn a_node_whose_log_is_not_read_ends_when_its_disk_fails() {
    let dir = tempfile::tempdir().unwrap();
    let listen = free_address();
    let mut command = program_whose_writes_may_fail();
    command.args([
        "serve",
        "--listen",
        &listen,
        "--peer-listen",
        "127.0.0.1:0",
        "--http-listen",
        "127.0.0.1:0",
    ]);
    command.arg("--data").arg(dir.path());
    // One pipe for both, as `2>&1` makes it.
    let (unread, both) = std::io::pipe().unwrap();
    command.stdout(both.try_clone().unwrap()).stderr(both);
    let mut node = Process(command.spawn().unwrap());
    drop(command);
    let mut client = None;
    until("it listens", || {
        client = Client::connect(listen.parse().unwrap()).ok();
        client.is_some()
    });
    let mut client = client.unwrap();
    cause_lines(&mut client);
    limit_files_to(&node.0, 1);
    let put = [("namespace", "n"), ("key", "k"), ("value", "v")];
    // Without its log it acknowledges nothing, whether it answers or not.
    assert!(client.ask(&request(code::PUT_KV_CONFIG, &put)).map_or(true, |answer| answer.code != 0));
    let mut status = None;
    until("it ends", || {
        status = node.0.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(4));
    drop(unread);
}

#[test]
fn a_member_that_dies_is_a_few_lines_at_the_others() {
    const LINES_MAX: usize = 6;
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path());
    for victim_leads in [false, true] {
        let leads = leader(&nodes);
        let victim = nodes.remove(if victim_leads { leads } else { (leads + 1) % 3 });
        let peer = victim.peers();
        nodes.iter().for_each(|node| drop(node.logged()));
        let ended = victim.kill();
        let killed = Instant::now();
        let leads = leader(&nodes);
        let mut lines = nodes[leads].logged_until("cannot be reached");
        assert!(lines.last().unwrap().contains(&peer), "{lines:#?}");
        while killed.elapsed() < Duration::from_secs(10) {
            std::thread::park_timeout(Duration::from_millis(200));
        }
        lines.extend(nodes.iter().flat_map(Node::logged));
        assert!(lines.len() <= LINES_MAX, "{lines:#?}");
        assert_eq!(lines.iter().filter(|line| line.contains("cannot be reached")).count(), 1, "{lines:#?}");

        nodes.push(ended.start());
        let back = nodes[leads].logged_until("is reached again");
        assert!(back.last().unwrap().contains(&peer), "{back:#?}");
    }
}

#[test]
fn a_clean_stop_logs_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = cluster(dir.path());
    let addresses: Vec<_> = nodes.iter().map(Node::at).collect();
    let _play =
        Play::start(&addresses.join(","), &["--brokers", "5", "--topics", "5", "--change-every-ms", "50"]);
    until_there_are(&nodes, 5);
    for node in nodes {
        drop(node.logged());
        node.send_sigterm();
        let (exit_code, log) = node.ended();
        assert_eq!(exit_code, 0, "{log:#?}");
        assert!(!log.iter().any(|line| line.contains(" ERROR ")), "{log:#?}");
    }
}

/// A terminal that closes must not take the nameserver with it.
#[test]
fn sighup_is_logged_and_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    node.send_sighup();
    node.logged_until("SIGHUP is ignored");
    stdout_of(&["kv", "put", "-n", &node.at(), "NS", "key", "value"]);
    assert_eq!(node.terminate(), 0);
}

#[test]
fn names_of_brokers_and_topics_forge_no_line_and_drive_no_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    let mut client = Client::connect(node.address).unwrap();
    client.done(&registration(&format!("b{HOSTILE}"), "0", "10.0.0.1:1", &[HOSTILE, "u"]));
    let put = [("namespace", HOSTILE), ("key", HOSTILE), ("value", HOSTILE)];
    client.done(&request(code::PUT_KV_CONFIG, &put));
    for line in node.logged_until("topic new") {
        assert!(!line.contains(|c: char| c.is_control() || c == '\u{202e}'), "{line:?}");
        assert!(!line.starts_with("2026-01-01"), "a forged line: {line:?}");
    }
    let at = node.at();
    for command in [
        &["topics"][..],
        &["brokers"],
        &["route", HOSTILE],
        &["why", HOSTILE],
        &["why", "10.0.0.1:1"],
        &["kv", "list"],
        &["kv", "list", HOSTILE],
    ] {
        let output = run(&[command, &["-n", &at]].concat());
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && printed.contains("forged"), "{command:?}: {printed}");
        let harms = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!printed.contains(harms), "{command:?}: {printed:?}");
        assert!(!printed.lines().any(|line| line.starts_with("2026-01-01")), "{command:?}: {printed:?}");
    }
    // A script gets what the tables hold.
    let topics = crate::process::json_of(&["topics", "--json", "-n", &at]);
    assert_eq!(topics, serde_json::json!([HOSTILE, "u"]));
}
