//! Nodes for tests: in one process, each on a runtime of its own (so that one can be killed), over real sockets,
//! with disks that outlive them.

#![allow(unreachable_pub, reason = "helpers of all files beside")]

pub mod partitions;

use bytes::Bytes;
use partitions::Partitions;
use raft::{
    Directory, LeaderState, Member, Node, NodeId, Options, Parts, PeerMessages, SnapshotPolicy, Timing,
};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use storage::checks::memory_log::MemoryLog;
use storage::command::{Origin, PutKv};
use storage::disk::SpaceLevel;
use storage::log::Log;
use storage::log_place::TruncatedTail;
use storage::runtime::SystemRuntime;
use storage::snapshots::{MemorySnapshots, Snapshots};
use storage::{Change, Command};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::time::Instant;

/// What survives the death of a node.
#[derive(Clone)]
pub struct Disk {
    pub log: Arc<MemoryLog>,
    pub snapshots: MemorySnapshots,
    pub directory: Arc<MemoryDirectory>,
    pub directory_id: u128,
}

impl Disk {
    /// A new, empty one.
    pub fn new(directory_id: u128) -> Self {
        Self {
            log: Arc::default(),
            snapshots: MemorySnapshots::new(),
            directory: Arc::default(),
            directory_id,
        }
    }
}

/// A data directory of memory.
#[derive(Default)]
pub struct MemoryDirectory {
    cluster_id: Mutex<Option<u128>>,
    space: Mutex<Option<SpaceLevel>>,
    pub truncated_tail: Mutex<Option<TruncatedTail>>,
}

impl MemoryDirectory {
    pub fn set_space(&self, space: SpaceLevel) {
        *self.space.lock().unwrap() = Some(space);
    }
}

impl Directory for MemoryDirectory {
    fn cluster_id(&self) -> Option<u128> {
        *self.cluster_id.lock().unwrap()
    }

    fn save_cluster_id(&self, cluster_id: u128) -> io::Result<()> {
        let mut saved = self.cluster_id.lock().unwrap();
        assert!(saved.is_none() || *saved == Some(cluster_id), "a directory changes its cluster");
        *saved = Some(cluster_id);
        Ok(())
    }

    fn truncated_tail(&self) -> Option<TruncatedTail> {
        self.truncated_tail.lock().unwrap().clone()
    }

    fn forget_truncated_tail(&self) -> io::Result<()> {
        *self.truncated_tail.lock().unwrap() = None;
        Ok(())
    }

    fn space(&self) -> SpaceLevel {
        self.space.lock().unwrap().unwrap_or(SpaceLevel::Ok)
    }
}

/// Answers a message with itself and the sender.
struct Echo;

impl PeerMessages for Echo {
    fn handle(&self, from: NodeId, message: Bytes) -> Pin<Box<dyn Future<Output = Bytes> + Send + '_>> {
        Box::pin(async move { Bytes::from(format!("{from}:{}", String::from_utf8_lossy(&message))) })
    }
}

/// A running node.
pub struct Running {
    pub node: Node,
    runtime: Option<Runtime>,
}

impl Running {
    /// Ends all tasks at once, as `kill -9` does.
    pub fn kill(mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Several nodes.
pub struct Cluster {
    pub nodes: Vec<Option<Running>>,
    pub disks: Vec<Disk>,
    pub options: Vec<Options>,
    pub partitions: Arc<Partitions>,
}

pub fn quick() -> Timing {
    Timing { heartbeat_ms: 50, election_min_ms: 300, election_max_ms: 600 }
}

pub fn in_secs(secs: u64) -> Instant {
    Instant::now() + Duration::from_secs(secs)
}

/// A command that puts a KV entry.
pub fn put(key: &str, value: &str) -> Command {
    put_in("test", key, value)
}

/// As [`put`], in any namespace. A namespace has room for 8 MiB.
pub fn put_in(namespace: &str, key: &str, value: &str) -> Command {
    let change =
        Change::PutKv(PutKv { namespace: namespace.into(), key: key.into(), value: Some(value.into()) });
    Command { origin: Origin::default(), change }
}

/// A free address, below the ports that the kernel gives to outgoing connections: no other process takes it while its
/// node is down.
pub fn free_address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id() * 10 + NEXT.fetch_add(1, Ordering::Relaxed);
        let address = format!("127.0.0.1:{}", 15_000 + number % 16_000);
        if std::net::TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
}

/// Listens, once the killed node's port is free.
pub async fn listen(address: &str) -> TcpListener {
    let bound = async {
        loop {
            match TcpListener::bind(address).await {
                Ok(listener) => return listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let bound = tokio::time::timeout(Duration::from_secs(20), bound).await;
    bound.unwrap_or_else(|_| panic!("another process has taken {address}"))
}

impl Cluster {
    /// Nodes 1 to `count`, not started.
    pub fn new(count: usize, adjust: impl Fn(&mut Options)) -> Self {
        let members: Vec<Member> =
            (1..).take(count).map(|id| Member { id, address: free_address() }).collect();
        let options = members
            .iter()
            .map(|me| {
                let mut options = Options {
                    node_id: me.id,
                    members: members.clone(),
                    timing: quick(),
                    secret: b"secret".to_vec(),
                    initial_commands: Vec::new(),
                    snapshots: SnapshotPolicy::default(),
                    batch_commands_max: Options::BATCH_COMMANDS_MAX,
                };
                adjust(&mut options);
                options
            })
            .collect();
        let disks = members.iter().map(|m| Disk::new(u128::from(m.id) * 1000)).collect();
        let nodes = members.iter().map(|_| None).collect();
        Self { nodes, disks, options, partitions: Arc::default() }
    }

    /// Adds a node that is no member; not started. Gives its id.
    pub fn add_non_member(&mut self) -> NodeId {
        let id = self.options.len() as u64 + 1;
        let mut options = self.options[0].clone();
        options.node_id = id;
        options.members = vec![];
        self.options.push(options);
        self.disks.push(Disk::new(u128::from(id) * 1000));
        self.nodes.push(None);
        id
    }

    fn address(&self, id: NodeId) -> String {
        let listed = self.options.iter().flat_map(|o| &o.members).find(|m| m.id == id);
        listed.map_or_else(free_address, |m| m.address.clone())
    }

    /// Starts a node. Gives the address of its peer port.
    pub async fn start(&mut self, id: NodeId) -> String {
        let at = id as usize - 1;
        let address = self.address(id);
        let (disk, options, partitions) =
            (self.disks[at].clone(), self.options[at].clone(), self.partitions.clone());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let at_address = address.clone();
        let opened = runtime.spawn(async move {
            let listener = listen(&at_address).await;
            let parts = Parts {
                log: disk.log.clone() as Arc<dyn Log>,
                snapshots: Arc::new(disk.snapshots.clone()) as Arc<dyn Snapshots>,
                runtime: Arc::new(SystemRuntime),
                network: partitions.network(id, listener),
                directory_id: disk.directory_id,
                directory: disk.directory.clone(),
                messages: Arc::new(Echo),
            };
            Node::open(options, parts).await
        });
        let node = opened.await.unwrap().unwrap();
        self.nodes[at] = Some(Running { node, runtime: Some(runtime) });
        address
    }

    /// Starts all nodes and waits until one leads.
    pub async fn started(count: usize, adjust: impl Fn(&mut Options)) -> Self {
        let mut cluster = Self::new(count, adjust);
        for id in 1..=count as u64 {
            cluster.start(id).await;
        }
        cluster.leader().await;
        cluster
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize - 1].as_ref().unwrap().node
    }

    pub fn kill(&mut self, id: NodeId) {
        if let Some(running) = self.nodes[id as usize - 1].take() {
            running.kill();
        }
    }

    /// Ids of the running nodes.
    pub fn running(&self) -> Vec<NodeId> {
        (1..).zip(&self.nodes).filter(|(_, n)| n.is_some()).map(|(id, _)| id).collect()
    }

    /// Waits until a running node leads, and all running nodes of its term follow it. Gives it.
    pub async fn leader(&self) -> NodeId {
        self.leader_among(&self.running()).await
    }

    pub async fn leader_among(&self, ids: &[NodeId]) -> NodeId {
        let mut found = 0;
        eventually("a leader that all follow", || {
            let seen: Vec<LeaderState> = ids.iter().map(|id| *self.node(*id).leadership().borrow()).collect();
            let Some(leader) = ids.iter().zip(&seen).find(|(_, l)| l.leading).map(|(id, _)| *id) else {
                return false;
            };
            found = leader;
            seen.iter().all(|l| l.leader == Some(leader))
        })
        .await;
        found
    }

    pub fn follower_of(&self, leader: NodeId) -> NodeId {
        self.running().into_iter().find(|id| *id != leader).unwrap()
    }

    /// Every node has these keys, once it is as far as `leader` is now.
    pub async fn all_have(&self, keys: &[String], leader: NodeId) {
        let last = self.node(leader).read_barrier(in_secs(5)).await.unwrap();
        for id in (1..).take(self.nodes.len()) {
            self.node(id).wait_applied(last, in_secs(10)).await.unwrap();
            let table = self.node(id).table();
            for key in keys {
                assert!(table.kv("test", key).is_some(), "{key} is lost on node {id}");
            }
        }
    }

    /// Stops everything, gracefully.
    pub async fn stop(mut self) {
        for running in self.nodes.iter_mut().filter_map(Option::take) {
            running.node.shutdown().await;
        }
    }
}

/// Waits until a condition holds.
pub async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(30), "not within 30 s: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
