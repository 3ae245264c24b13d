//! A process that may open few files, and the connections that would take them all; and clients of the HTTP port that
//! do nothing.

use crate::client::{Client, registration, request};
use crate::process::{Node, PATIENCE, all_ready, get, metric, program_by, run, until};
use raft_namesrv::wire::codes::request as code;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Few, but more than the log, the snapshots and the other nodes need.
const OPEN_FILES: &str = "200";
/// Twice as many as all files.
const IDLE_CLIENTS: usize = 400;
const IDLE_HTTP: usize = 100;
/// Larger than a segment of the log when there are 20.
const VALUE_BYTES: usize = 1_000_000;
const VALUES: usize = 20;

fn idle(to: SocketAddr, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(to).unwrap()).collect()
}

fn start_with_few_files(data: &Path) -> Node {
    let mut shell = program_by("sh");
    let limited = format!("ulimit -n {OPEN_FILES}; exec \"$0\" \"$@\"");
    shell.args([
        "-c",
        &limited,
        env!("CARGO_BIN_EXE_raft-namesrv"),
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
    ]);
    shell.arg(data);
    Node::start_as(shell)
}

fn segments(data: &Path) -> usize {
    std::fs::read_dir(data.join("log")).unwrap().count()
}

fn post(address: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let head = "Host: x\r\nConnection: close\r\nContent-Type: application/json";
    write!(stream, "POST {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Until the node closes it; gives what came before, and how long that took.
fn until_closed(mut stream: TcpStream) -> (String, Duration) {
    let begun = Instant::now();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut came = String::new();
    // A connection that ends with bytes unread is reset.
    match stream.read_to_string(&mut came) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
    (came, begun.elapsed())
}

#[test]
fn connections_leave_files_for_the_log_the_other_nodes_and_operators() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("1");
    let node = start_with_few_files(&data);
    all_ready(std::slice::from_ref(&node));
    let mut client = Client::connect(node.address).unwrap();
    client.done(&registration("b", "0", "10.0.0.1:10911", &["t0", "t1"]));

    let _clients = idle(node.address, IDLE_CLIENTS);
    let _operators = idle(node.http().parse().unwrap(), IDLE_HTTP);
    until("most are refused", || {
        metric::<usize>(&node, "rocketmq_namesrv_connections_closed_total{reason=\"limit\"}")
            > IDLE_CLIENTS / 2
    });
    assert!(get(&node.http(), "/livez").ends_with("alive\n"));
    node.logged_until("connection refused: too many");

    // A node joins: eight connections each way.
    let contact = format!("1={}", node.peers());
    let learner = Node::start(&dir.path().join("2"), &["--node-id", "2", "--members", &contact]);
    let change = format!("{{\"change\":\"add\",\"id\":2,\"address\":\"{}\"}}", learner.peers());
    let added = post(&node.http(), "/api/v1/members", &change);
    assert!(added.starts_with("HTTP/1.1 200"), "{added}");

    // The log needs new segments.
    let before = segments(&data);
    for number in 0..VALUES {
        let value = format!("{number}{}", "v".repeat(VALUE_BYTES));
        client.done(&request(code::PUT_KV_CONFIG, &[("namespace", "n"), ("key", "k"), ("value", &value)]));
    }
    assert!(segments(&data) > before, "{} segments", segments(&data));
    client.done(&request(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", "t0")]));
    until("the learner has it all", || {
        let applied = |node| metric::<u64>(node, "rocketmq_namesrv_raft_applied_index");
        applied(&learner) == applied(&node)
    });
    assert!(run(&["route", "t0", "-n", &learner.at()]).status.success());
    let warned =
        |line: &String| line.contains(&format!("may open {OPEN_FILES} files")) && line.contains("ulimit -n");
    assert!(node.begun.iter().any(warned), "{:#?}", node.begun);
    assert_eq!(node.terminate(), 0);
}

#[test]
fn clients_of_the_http_port_that_do_nothing_keep_no_other_out_and_are_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[]);
    let http: SocketAddr = node.http().parse().unwrap();
    let mut begun: Vec<_> = idle(http, IDLE_HTTP);
    for stream in &mut begun {
        // Those that gave their place to another are closed already.
        let _ = stream.write_all(b"GET /livez HT");
    }
    assert!(get(&node.http(), "/livez").ends_with("alive\n"));
    until_closed(begun.remove(0));
    let newest = begun.pop().unwrap();
    let (answer, took) = until_closed(newest);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(took > Duration::from_secs(1) && took < Duration::from_secs(30), "{took:?}");

    let gave_way: usize =
        metric(&node, "rocketmq_namesrv_http_connections_closed_total{reason=\"gave_way\"}");
    assert!(gave_way > IDLE_HTTP / 2, "{gave_way}");

    let mut silent_body = TcpStream::connect(http).unwrap();
    let head = "POST /api/v1/transfer HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{";
    silent_body.write_all(head.as_bytes()).unwrap();
    let (answer, _) = until_closed(silent_body);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");

    let mut large = TcpStream::connect(http).unwrap();
    write!(large, "POST /api/v1/members HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n").unwrap();
    large.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = [0; 12];
    large.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}
