//! Nodes in this process, each on free ports with a directory of its own, started and stopped as the program does.

use raft_namesrv::{Listeners, NodeConfig, RunError, RunningNode, run};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Limit of waits that end at once on an idle machine and may take long on a busy one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running node.
pub(crate) struct Node {
    pub(crate) running: RunningNode,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), RunError>>,
    machine: Machine,
    pub(crate) config: NodeConfig,
    /// Its data, removed when this is dropped.
    dir: TempDir,
}

/// The runtime of a node's tasks, so that all can end at once as those of a killed process do.
struct Machine(Option<Runtime>);

impl Machine {
    fn new() -> Self {
        Self(Some(Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()))
    }

    fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.0.as_ref().unwrap().spawn(work)
    }

    /// Ends every task where it is, and waits for their ends.
    async fn halt(mut self) {
        let runtime = self.0.take().unwrap();
        tokio::task::spawn_blocking(move || runtime.shutdown_timeout(PATIENCE)).await.unwrap();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Waiting is not allowed here.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Node {
    /// A cluster of one, ready.
    pub(crate) async fn alone() -> Self {
        Self::alone_with(|_| {}).await
    }

    /// A cluster of one with other settings, ready.
    pub(crate) async fn alone_with(change: impl FnOnce(&mut NodeConfig)) -> Self {
        let dir = TempDir::new().unwrap();
        let mut config = NodeConfig::new(1, dir.path().join("data"));
        change(&mut config);
        let node = Self::start(config, dir, free_port().await, free_port().await).await;
        node.ready().await;
        node
    }

    /// A node with an empty directory that knows one node of a cluster, and waits to be added.
    pub(crate) async fn joining(id: u64, contact: &Self) -> Self {
        let dir = TempDir::new().unwrap();
        let mut config = NodeConfig::new(id, dir.path().join("data"));
        config.members = vec![raft::Member { id: 1, address: contact.running.peer_address.to_string() }];
        Self::start(config, dir, free_port().await, free_port().await).await
    }

    async fn start(config: NodeConfig, dir: TempDir, clients: TcpListener, peers: TcpListener) -> Self {
        let started = Self::try_start(config, dir, clients, peers).await;
        started.unwrap_or_else(|ended| panic!("the node did not start: {ended:?}"))
    }

    /// Gives how it ended when it did not start.
    async fn try_start(
        config: NodeConfig,
        dir: TempDir,
        clients: TcpListener,
        peers: TcpListener,
    ) -> Result<Self, Result<(), RunError>> {
        let (stop, stopped) = oneshot::channel::<()>();
        let (started, starting) = oneshot::channel();
        let with = config.clone();
        let http = free_port().await;
        let machine = Machine::new();
        let task = machine.spawn(async move {
            let shutdown = async {
                let _ = stopped.await;
            };
            let listeners = Listeners { clients, peers, http: Some(http) };
            run(with, listeners, shutdown, |running| drop(started.send(running.clone()))).await
        });
        let Ok(running) = starting.await else { return Err(task.await.unwrap()) };
        Ok(Self { running, stop: Some(stop), task, machine, config, dir })
    }

    /// Where brokers and clients connect to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.running.address
    }

    /// Waits until it answers look-ups with a leader known.
    pub(crate) async fn ready(&self) {
        let mut ready = self.running.service.ready();
        let waiting = ready.wait_for(|ready| *ready == raft_namesrv::service::Ready::Yes);
        tokio::time::timeout(PATIENCE, waiting).await.expect("not ready in time").unwrap();
    }

    /// The last entry that it applied.
    pub(crate) fn revision(&self) -> u64 {
        self.running.node.table().revision().map_or(0, |id| id.index)
    }

    /// Stops it as SIGTERM does; gives what a later start needs.
    pub(crate) async fn stop(mut self) -> Stopped {
        let addresses = (self.running.address, self.running.peer_address);
        drop(self.stop.take());
        tokio::time::timeout(PATIENCE, self.task).await.expect("it did not stop").unwrap().unwrap();
        drop(self.running);
        Stopped { config: self.config, dir: self.dir, addresses }
    }

    /// Ends it as kill -9 does: it sends nothing, transfers no leadership, and its connections are closed.
    pub(crate) async fn kill(self) -> Stopped {
        let addresses = (self.running.address, self.running.peer_address);
        // If it were dropped before, `stop` would end the node gracefully.
        let Self { running, stop: _stop, machine, config, dir, .. } = self;
        machine.halt().await;
        // No task runs any more; but liveness and the node hold each other, and so files and ports would stay open.
        running.liveness.stop();
        drop(running);
        Stopped { config, dir, addresses }
    }
}

/// A node that was stopped.
pub(crate) struct Stopped {
    config: NodeConfig,
    dir: TempDir,
    addresses: (SocketAddr, SocketAddr),
}

impl Stopped {
    /// Its data directory.
    pub(crate) fn data(&self) -> &Path {
        &self.config.data
    }

    /// Why it does not start again. Its data stay.
    pub(crate) async fn refusal(&self) -> String {
        let (config, nothing) = (self.config.clone(), TempDir::new().unwrap());
        match Node::try_start(config, nothing, free_port().await, free_port().await).await {
            Err(Err(RunError::Refused(why))) => why,
            Err(ended) => panic!("it ended otherwise: {ended:?}"),
            Ok(_) => panic!("it started"),
        }
    }

    /// Starts it again on its ports. Does not wait until it is ready.
    pub(crate) async fn start(self) -> Node {
        let clients = TcpListener::bind(self.addresses.0).await.unwrap();
        let peers = TcpListener::bind(self.addresses.1).await.unwrap();
        Node::start(self.config, self.dir, clients, peers).await
    }
}

/// Several nodes of one cluster, ready.
pub(crate) async fn cluster(nodes: u64) -> Vec<Node> {
    cluster_with(nodes, |_| {}).await
}

/// Several nodes of one cluster with other settings, ready.
pub(crate) async fn cluster_with(nodes: u64, change: impl Fn(&mut NodeConfig)) -> Vec<Node> {
    let nodes = start(nodes, nodes, change).await;
    for node in &nodes {
        node.ready().await;
    }
    nodes
}

/// The first `started` nodes of a new cluster of `nodes`; too few to be one.
pub(crate) async fn some_of(nodes: u64, started: u64) -> Vec<Node> {
    start(nodes, started, |_| {}).await
}

async fn start(nodes: u64, started: u64, change: impl Fn(&mut NodeConfig)) -> Vec<Node> {
    let mut ports = Vec::new();
    for id in 1..=nodes {
        ports.push((id, free_port().await, free_port().await));
    }
    let members: Vec<raft::Member> = ports
        .iter()
        .map(|(id, _, peers)| raft::Member { id: *id, address: peers.local_addr().unwrap().to_string() })
        .collect();
    let mut starting = Vec::new();
    for (id, clients, peers) in ports.into_iter().take(usize::try_from(started).unwrap()) {
        let dir = TempDir::new().unwrap();
        let mut config = NodeConfig::new(id, dir.path().join("data"));
        config.members = members.clone();
        change(&mut config);
        starting.push(Node::start(config, dir, clients, peers));
    }
    futures_util::future::join_all(starting).await
}

/// The place of the node that leads.
pub(crate) async fn leader(nodes: &[Node]) -> usize {
    let found = async {
        loop {
            if let Some(at) = nodes.iter().position(|node| node.running.node.is_leader_with_lease().is_some())
            {
                return at;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, found).await.expect("no leader in time")
}

/// Transfers the leadership to this node, and gives its term.
pub(crate) async fn let_lead(node: &Node) -> u64 {
    let leads = async {
        loop {
            if let Some(term) = node.running.node.is_leader_with_lease() {
                return term;
            }
            // Refused while there is no leader.
            let deadline = Instant::now() + Duration::from_secs(1);
            let _ = node.running.node.transfer(Some(node.config.node_id), deadline).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, leads).await.expect("it does not lead in time")
}

/// Kills a node while it leads. Gives how long the others were without a leader, once they have one.
pub(crate) async fn kill_leader(node: Node, others: &[Node]) -> (Stopped, JoinHandle<Duration>) {
    let term = let_lead(&node).await;
    let others: Vec<_> = others.iter().map(|node| node.running.node.clone()).collect();
    let killed = Instant::now();
    let watching = tokio::spawn(async move {
        while others.iter().filter_map(raft::Node::is_leader_with_lease).all(|newer| newer <= term) {
            assert!(killed.elapsed() < PATIENCE, "no leader in time");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        killed.elapsed()
    });
    (node.kill().await, watching)
}

/// Asserts that the leader was elected and got no transfer, which takes some milliseconds.
pub(crate) async fn was_elected(leaderless: JoinHandle<Duration>) {
    /// The last heartbeat of the former leader is at most an interval old, and no election begins before its timeout.
    const ELECTION_MIN: Duration = Duration::from_millis(100);
    let took = leaderless.await.unwrap();
    assert!(took >= ELECTION_MIN, "the next one led after {took:?}: the leadership was transferred");
}

/// Waits until all nodes have applied the highest revision of all.
pub(crate) async fn same_revision(nodes: &[Node]) -> u64 {
    let furthest = nodes.iter().map(Node::revision).max().unwrap();
    let deadline = Instant::now() + PATIENCE;
    for node in nodes {
        node.running.node.wait_applied(furthest, deadline).await.unwrap();
    }
    furthest
}

/// Waits for a condition that other tasks bring about.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn free_port() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}
