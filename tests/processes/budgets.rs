//! What clients can make a node hold in memory: answers that they do not read, bodies that inflate, frames that they do not
//! finish. Look-ups go on meanwhile, and the memory comes back.

use crate::client::{Client, compressed_registration, registration, request};
use crate::process::{Node, metric, until};
use raft_namesrv::wire::codes::request as code;
use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

const MIB: usize = 1 << 20;

/// A node with these lines in its properties file.
fn node_with(dir: &Path, properties: &str) -> Node {
    let file = dir.join("namesrv.properties");
    std::fs::write(&file, properties).unwrap();
    let node = Node::start(&dir.join("data"), &["-c", file.to_str().unwrap()]);
    until("it is ready", || metric::<u64>(&node, "rocketmq_namesrv_ready") == 1);
    node
}

/// A connection that has a route.
fn client_with_a_route(node: &Node) -> Client {
    let mut client = Client::connect(node.address).unwrap();
    client.done(&registration("small", "0", "10.0.0.1:10911", &["t0", "t1"]));
    client
}

fn look_up(client: &mut Client) {
    client.done(&request(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", "t0")]));
}

fn budget(node: &Node, kind: &str) -> usize {
    metric(node, &format!("rocketmq_namesrv_budget_bytes{{kind=\"{kind}\"}}"))
}

/// Names of topics that differ, of so many bytes each.
fn names(count: usize, bytes: usize) -> impl ExactSizeIterator<Item = String> {
    (0..count).map(move |number| format!("{number:0>bytes$}"))
}

#[test]
fn topic_lists_that_a_client_does_not_read_take_the_memory_of_one() {
    let dir = tempfile::tempdir().unwrap();
    let node = node_with(dir.path(), "");
    let mut other = client_with_a_route(&node);
    other.done(&compressed_registration("big", names(5_000, 2_000)));
    let before = node.peak_resident_kib();
    let mut client = Client::connect(node.address).unwrap();
    for _ in 0..300 {
        client.send(&request(code::GET_ALL_TOPIC_LIST_FROM_NAMESERVER, &[])).unwrap();
    }
    until("the requests are answered as far as they will be", || {
        look_up(&mut other);
        metric::<usize>(&node, "rocketmq_namesrv_requests_total{code=\"206\"}") > 0
            && metric::<usize>(&node, "rocketmq_namesrv_requests_in_flight") == 0
    });
    let grown = (node.peak_resident_kib() - before) / 1024;
    assert!(grown < 150, "{grown} MiB for 36 KB of requests; one answer has 10 MB");
    let held = budget(&node, "replies");
    assert!((10_000_000..20_000_000).contains(&held), "{held} bytes of answers are not sent");
    assert!(client.next().unwrap().body.len() > 10_000_000, "the first one is answered");
    drop(client);
    until("all is given back", || budget(&node, "replies") == 0);
    until("the memory too", || node.resident_kib() < before + 50 * 1024);
}

#[test]
fn registrations_that_inflate_wait_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let node = node_with(dir.path(), "parsedRegistrationsBytesMax=33554432\n");
    let mut other = client_with_a_route(&node);
    let bomb = compressed_registration("bomb", names(15_000, 4_000));
    assert!(bomb.body.len() < MIB, "{} bytes sent", bomb.body.len());
    let before = node.peak_resident_kib();
    let mut clients: Vec<_> = (0..12).map(|_| Client::connect(node.address).unwrap()).collect();
    for client in &mut clients {
        client.send(&bomb).unwrap();
    }
    until("they were refused", || {
        look_up(&mut other);
        metric::<usize>(&node, "rocketmq_namesrv_requests_in_flight") == 0
    });
    for client in &mut clients {
        let answer = client.next().unwrap();
        assert!(answer.code == 1 || answer.code == 2, "{:?}", answer.remark);
    }
    let grown = (node.peak_resident_kib() - before) / 1024;
    assert!(grown < 350, "{grown} MiB for twelve bodies of 60 MB");
    assert_eq!(budget(&node, "registrations"), 0);
    other.done(&registration("small", "0", "10.0.0.1:10911", &["t0", "t1", "t2"]));
}

#[test]
fn frames_that_are_not_finished_take_their_budget_and_are_closed() {
    let dir = tempfile::tempdir().unwrap();
    let node = node_with(dir.path(), "incompleteFramesBytesMax=67108864\nframeTimeoutSeconds=3\n");
    let mut other = client_with_a_route(&node);
    let before = node.peak_resident_kib();
    let senders: Vec<_> = (0..30).map(|_| Unfinished::connect(&node)).collect();
    let sending: Vec<_> = senders.into_iter().map(|sender| std::thread::spawn(|| sender.send())).collect();
    let topics: Vec<String> = names(300, 20).collect();
    let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
    // A larger frame than the first read of a connection takes.
    for round in 0..20 {
        look_up(&mut other);
        other.done(&registration("middle", "0", &format!("10.0.1.{round}:10911"), &topics));
    }
    let closed = "rocketmq_namesrv_connections_closed_total{reason=\"slow_frame\"}";
    until("they are closed", || {
        look_up(&mut other);
        metric::<usize>(&node, closed) == sending.len()
    });
    let grown = (node.peak_resident_kib() - before) / 1024;
    assert!(grown < 64 + 16 + 70, "{grown} MiB for a budget of 64 MiB, and one frame");
    assert_eq!((budget(&node, "frames"), budget(&node, "small_frames")), (0, 0));
    until("the memory is given back", || node.resident_kib() < before + 50 * 1024);
    for sender in sending {
        sender.join().unwrap();
    }
    assert_eq!(metric::<usize>(&node, "rocketmq_namesrv_connections_open"), 1);
}

/// A connection that sends a frame of 12 MiB but for its end.
struct Unfinished(TcpStream);

impl Unfinished {
    const FRAME_BYTES: usize = 12 * MIB;

    fn connect(node: &Node) -> Self {
        let stream = TcpStream::connect(node.address).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(stream)
    }

    /// Sends until it is closed.
    fn send(mut self) {
        let mut head = u32::try_from(Self::FRAME_BYTES - 4).unwrap().to_be_bytes().to_vec();
        head.extend([0, 0, 0, 100]);
        self.0.write_all(&head).unwrap();
        let piece = vec![b' '; 64 << 10];
        for _ in 1..Self::FRAME_BYTES / piece.len() {
            match self.0.write_all(&piece) {
                Ok(()) => {}
                Err(error) if [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset].contains(&error.kind()) => {
                    return;
                }
                Err(error) => panic!("{error}"),
            }
        }
        let mut end = [0];
        let _ = std::io::Read::read(&mut self.0, &mut end);
    }
}
