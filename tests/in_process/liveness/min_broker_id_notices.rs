//! NOTIFY_MIN_BROKER_ID_CHANGE: sent once for a change, by the leader, to those it concerns.

use super::{Broker, gone, until};
use crate::client::{Client, request};
use crate::nodes::{self, Node, PATIENCE};
use bytes::BytesMut;
use raft_namesrv::wire::{Decoder, RemotingCommand, codes::request as code};
use std::net::SocketAddr;
use std::time::Duration;
use storage::route_info::BrokerKey;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

/// From the entry that makes the change to the notice.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The port of a broker: takes what nameservers send there.
struct Port {
    address: SocketAddr,
    received: mpsc::UnboundedReceiver<RemotingCommand>,
}

impl Port {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, received) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(take_all(stream, sender.clone()));
            }
        });
        Self { address, received }
    }

    async fn next(&mut self) -> RemotingCommand {
        timeout(PATIENCE, self.received.recv()).await.expect("no notice in time").unwrap()
    }

    fn is_empty(&mut self) -> bool {
        self.received.try_recv().is_err()
    }
}

async fn take_all(mut stream: TcpStream, to: mpsc::UnboundedSender<RemotingCommand>) {
    let (mut decoder, mut bytes) = (Decoder::for_client(), BytesMut::new());
    while stream.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {
        while let Some(command) = decoder.next(&mut bytes).unwrap() {
            to.send(command).unwrap();
        }
    }
}

/// A port on which connections are neither taken nor refused.
struct BlackHole {
    address: SocketAddr,
    _socket: tokio::net::TcpListener,
    _waiting: Vec<TcpStream>,
}

impl BlackHole {
    async fn open() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        while let Ok(connected) = timeout(Duration::from_millis(500), TcpStream::connect(address)).await {
            waiting.push(connected.unwrap());
        }
        Self { address, _socket: listener, _waiting: waiting }
    }
}

fn member(id: i64, address: SocketAddr) -> Broker {
    Broker { id, address: address.to_string(), ..Broker::new("g", 2) }
}

/// Registers over a new connection, as a member of a group whose lowest id stands in for a master.
async fn join(node: &Node, broker: &Broker) -> Client {
    let mut client = Client::connect(node.address()).await;
    client.done(&broker.register().with("enableActingMaster", "true")).await;
    client
}

async fn switch_on(node: &Node) {
    let text = b"notifyMinBrokerIdChanged=true".to_vec();
    let mut client = Client::connect(node.address()).await;
    let change = request(code::UPDATE_NAMESRV_CONFIG, &[]).with_body(text);
    until("switched on", async || client.ask(&change).await.code == 0).await;
}

/// Notices that the nodes handed out since they started.
fn handed_out(nodes: &[Node]) -> u64 {
    nodes.iter().map(|node| node.running.notices.due.get()).sum()
}

/// When the first node has applied that a broker left.
async fn left(nodes: &[Node], broker: &Broker) -> Instant {
    let key = BrokerKey { cluster: broker.cluster.as_str().into(), address: broker.address.as_str().into() };
    let has_left = |node: &Node| node.running.node.table().live(&key).is_none();
    until("it left", async || nodes.iter().any(has_left)).await;
    Instant::now()
}

fn said(notice: &RemotingCommand) -> (i32, i64, Option<&str>) {
    let id = notice.field("minBrokerId").unwrap().parse().unwrap();
    (notice.code, id, notice.field("offlineBrokerAddr"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_causes_one_notice_and_a_restart_none() {
    let nodes = nodes::cluster(3).await;
    let (mut one, mut two) = (Port::open().await, Port::open().await);
    let lowest = member(0, "127.0.0.1:9".parse().unwrap());
    let (first, second) = (member(1, one.address), member(2, two.address));
    let mut stay = Vec::new();
    for node in &nodes {
        stay.push(join(node, &first).await);
        stay.push(join(node, &second).await);
    }
    switch_on(&nodes[0]).await;
    nodes::same_revision(&nodes).await;
    let mut notified = 0;
    for round in 0..4 {
        let mut connection = join(&nodes[round % 3], &lowest).await;
        for port in [&mut one, &mut two] {
            let notice = port.next().await;
            assert_eq!(said(&notice), (code::NOTIFY_MIN_BROKER_ID_CHANGE, 0, None), "round {round}");
            assert_eq!(notice.field("minBrokerAddr"), Some(&*lowest.address));
        }
        // It leaves by request and by its close in turn.
        if round % 2 == 0 {
            assert!(
                connection.ask(&lowest.unregister()).await.code <= 1,
                "given up at worst: it may still be done"
            );
        } else {
            drop(connection);
        }
        for port in [&mut one, &mut two] {
            let notice = port.next().await;
            let expected = (code::NOTIFY_MIN_BROKER_ID_CHANGE, 1, Some(&*lowest.address));
            assert_eq!(said(&notice), expected, "round {round}");
        }
        notified += 2;
        nodes::same_revision(&nodes).await;
        assert_eq!(handed_out(&nodes), notified);
    }
    assert!(one.is_empty() && two.is_empty());

    let stopped = futures_util::future::join_all(nodes.into_iter().map(Node::stop)).await;
    let nodes = futures_util::future::join_all(stopped.into_iter().map(|node| node.start())).await;
    for node in &nodes {
        node.ready().await;
    }
    nodes::leader(&nodes).await;
    let _connection = join(&nodes[0], &lowest).await;
    assert_eq!(said(&one.next().await).1, 0);
    assert_eq!(said(&two.next().await).1, 0);
    nodes::same_revision(&nodes).await;
    assert_eq!(handed_out(&nodes), 1, "the one of now");
    assert!(one.is_empty() && two.is_empty());
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_that_take_no_connection_or_do_not_read_hold_up_neither_the_table_nor_another() {
    let nodes = nodes::cluster(3).await;
    let (hole, mut two) = (BlackHole::open().await, Port::open().await);
    // The kernel takes connections for it, and nobody reads.
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let lowest = member(0, "127.0.0.1:9".parse().unwrap());
    let mut stay = Vec::new();
    for member in [member(1, hole.address), member(2, mute.local_addr().unwrap()), member(3, two.address)] {
        stay.push(join(&nodes[0], &member).await);
    }
    switch_on(&nodes[0]).await;
    let failed = || nodes.iter().map(|node| node.running.notices.failed.get()).sum::<u64>();
    let connection = join(&nodes[1], &lowest).await;
    let joined = Instant::now();
    assert_eq!(said(&two.next().await).1, 0);
    assert!(joined.elapsed() < AT_ONCE, "{:?}", joined.elapsed());
    nodes::same_revision(&nodes).await;
    drop(connection);
    let (applied, (notice, notified)) =
        tokio::join!(left(&nodes, &lowest), async { (two.next().await, Instant::now()) });
    assert_eq!(said(&notice).1, 1);
    let took = notified.saturating_duration_since(applied);
    assert!(took < AT_ONCE, "{took:?}");
    gone(&nodes, &Broker { topics: vec![("g_t0".into(), 4)], ..lowest.clone() }).await;
    assert_eq!(failed(), 0, "those to the other are still under way");
    until("given up", async || failed() == 2).await;
    for node in nodes {
        node.stop().await;
    }
}

/// The leader dies: the next one may tell it again, and tells what follows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_causes_a_notice_also_when_the_leader_has_just_gone() {
    let mut nodes = nodes::cluster(3).await;
    let mut two = Port::open().await;
    let former = nodes.remove(nodes::leader(&nodes).await);
    let lowest = member(1, "127.0.0.1:9".parse().unwrap());
    let _stays = join(&nodes[0], &member(2, two.address)).await;
    let connection = join(&nodes[1], &lowest).await;
    switch_on(&nodes[0]).await;
    nodes::same_revision(&nodes).await;
    let (_dead, leaderless) = nodes::kill_leader(former, &nodes).await;
    drop(connection);
    nodes::was_elected(leaderless).await;
    let notice = two.next().await;
    assert_eq!(said(&notice), (code::NOTIFY_MIN_BROKER_ID_CHANGE, 2, Some(&*lowest.address)));
    nodes::same_revision(&nodes).await;
    for node in &nodes {
        assert!(handed_out(std::slice::from_ref(node)) <= 1, "more than once by one leader");
    }
    for node in nodes {
        node.stop().await;
    }
}
