//! Lost snapshots: what a node starts from, by the steps of the runbook of damaged snapshots.

use super::client::{Broker, Client, request};
use super::nodes::{self, Node, PATIENCE, Stopped};
use raft::{SnapshotPolicy, Status};
use raft_namesrv::NodeConfig;
use raft_namesrv::wire::codes::request as code;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;

/// Entries between two snapshots.
const ENTRIES: u64 = 20;

fn often(config: &mut NodeConfig) {
    config.snapshots = SnapshotPolicy { entries: ENTRIES, log_bytes_max: 1, ..SnapshotPolicy::default() };
}

async fn put(client: &mut Client, n: u64) {
    let (key, value) = (format!("k{}", n % 50), n.to_string());
    client.done(&request(code::PUT_KV_CONFIG, &[("namespace", "n"), ("key", &key), ("value", &value)])).await;
}

async fn until_status(node: &Node, what: &str, is_so: impl Fn(&Status) -> bool) {
    let begun = Instant::now();
    while !is_so(&node.running.node.status()) {
        assert!(begun.elapsed() < PATIENCE, "never {what}: {:?}", node.running.node.status());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Puts until two snapshots were made and the log was purged behind the older one.
async fn put_until_purged(client: &mut Client, nodes: &[Node]) {
    let begun = Instant::now();
    let mut n = 0;
    let purged = |node: &Node| {
        let status = node.running.node.status();
        status.purged.is_some() && status.snapshot > status.purged
    };
    while !nodes.iter().all(purged) {
        assert!(begun.elapsed() < PATIENCE, "nothing is purged");
        put(client, n).await;
        n += 1;
    }
}

/// The directories of the snapshots of a stopped node, oldest first.
fn kept(node: &Stopped) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(node.data().join("snapshots")).unwrap();
    let mut kept: Vec<PathBuf> =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    kept.sort();
    assert_eq!(kept.len(), 2, "{kept:?}");
    kept
}

/// Changes one byte in the middle of a snapshot's database.
fn damage(snapshot: &Path) {
    let path = snapshot.join("db");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

fn move_to(snapshot: &Path, away: &TempDir) {
    std::fs::rename(snapshot, away.path().join(snapshot.file_name().unwrap())).unwrap();
}

/// The older snapshot and the log behind it hold everything: with the newest moved away, the tables are the same. When
/// the older one is gone too, that is refused, and nothing is changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_newest_snapshot_can_be_moved_away() {
    let node = Node::alone_with(often).await;
    let mut client = Client::connect(node.address()).await;
    client.done(&Broker::new("b", 3).register()).await;
    let nodes = [node];
    put_until_purged(&mut client, &nodes).await;
    let [node] = nodes;
    // In the log alone.
    put(&mut client, 1_000_000).await;
    let (revision, hash) = {
        let table = node.running.node.table();
        (table.revision(), table.state_hash())
    };
    let stopped = node.stop().await;
    let snapshots = kept(&stopped);
    damage(&snapshots[1]);
    let why = stopped.refusal().await;
    assert!(why.contains("damaged") && why.contains(snapshots[1].to_str().unwrap()), "{why}");

    let away = TempDir::new().unwrap();
    move_to(&snapshots[1], &away);
    let node = stopped.start().await;
    node.ready().await;
    let table = node.running.node.table();
    assert!(table.revision() >= revision);
    // Nothing but a leader's first entry has come since.
    assert_eq!(table.kv("n", "k0").map(|kv| kv.to_string()), Some("1000000".to_owned()));
    assert_eq!(table.state_hash(), hash);
    drop(table);

    let stopped = node.stop().await;
    move_to(&snapshots[0], &away);
    let before = std::fs::read(stopped.data().join("marker")).unwrap();
    let why = stopped.refusal().await;
    assert!(why.contains("do not meet") && why.contains("the newest snapshot stands at none"), "{why}");
    assert_eq!(std::fs::read(stopped.data().join("marker")).unwrap(), before);
}

/// A snapshot that came from the leader replaces the log: the older one of the node's own has no entries after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_received_snapshot_the_older_one_is_refused() {
    let mut nodes = nodes::cluster_with(3, often).await;
    let mut client = Client::connect(nodes[0].address()).await;
    put_until_purged(&mut client, &nodes).await;
    let away = nodes.pop().unwrap();
    let before = away.revision();
    let away = away.stop().await;
    let begun = Instant::now();
    let mut n = 0;
    while !nodes.iter().all(|node| node.running.node.status().purged.is_some_and(|id| id.index > before)) {
        assert!(begun.elapsed() < PATIENCE, "nothing is purged");
        put(&mut client, n).await;
        n += 1;
    }
    // No node makes another one now: so the node that comes back has the leader's, and makes none itself. A snapshot that
    // is due is waited for without a put beside it.
    let ahead = |node: &Node| {
        let status = node.running.node.status();
        let index = |id: Option<storage::LogId>| id.map_or(0, |id| id.index);
        index(status.applied).saturating_sub(index(status.snapshot))
    };
    while !nodes.iter().all(|node| ahead(node) < ENTRIES * 3 / 4) {
        put(&mut client, n).await;
        n += 1;
        for node in &nodes {
            until_status(node, "a snapshot when it was due", |_| ahead(node) < ENTRIES).await;
        }
    }
    let level = nodes::same_revision(&nodes).await;
    let back = away.start().await;
    until_status(&back, "level", |status| status.applied.is_some_and(|id| id.index >= level)).await;
    until_status(&back, "purged up to the snapshot", |status| status.purged == status.snapshot).await;
    let stopped = back.stop().await;

    let moved = TempDir::new().unwrap();
    let snapshots = kept(&stopped);
    move_to(&snapshots[1], &moved);
    let why = stopped.refusal().await;
    assert!(why.contains("do not meet") && why.contains("damaged-snapshot.md"), "{why}");
    // Put back, all is well.
    std::fs::rename(moved.path().join(snapshots[1].file_name().unwrap()), &snapshots[1]).unwrap();
    let back = stopped.start().await;
    back.ready().await;
    for node in nodes.into_iter().chain([back]) {
        node.stop().await;
    }
}
