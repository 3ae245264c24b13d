//! A received snapshot against a log that does not rest. openraft has an open fault there: a purge can overtake the
//! apply, and its core panics. Our guard waits until the log rests.

use super::*;
use crate::api::{Directory, Member, NodeId, Options, PeerMessages, SnapshotPolicy, Timing};
use crate::consensus::applied_state::State;
use crate::consensus::types::{Batch, Contact, Membership, RaftEntry, StoredMembership};
use crate::node::{Node, Parts};
use crate::peer::{BoxedStream, NetworkFuture, PeerNetwork};
use bytes::Bytes;
use openraft::EntryPayload;
use openraft::raft::AppendEntriesRequest;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use storage::checks::memory_log::MemoryLog;
use storage::log::Log;
use storage::runtime::SystemRuntime;
use storage::snapshots::{MemorySnapshots, Snapshots};
use storage::{LogId, RouteInfo};
use tokio::time::timeout;

struct NoNetwork;

impl PeerNetwork for NoNetwork {
    fn connect<'a>(&'a self, _address: &'a str) -> NetworkFuture<'a, BoxedStream> {
        Box::pin(async { Err(io::ErrorKind::HostUnreachable.into()) })
    }

    fn accept(&self) -> NetworkFuture<'_, (BoxedStream, String)> {
        Box::pin(std::future::pending())
    }
}

struct Nowhere;

impl Directory for Nowhere {
    fn cluster_id(&self) -> Option<u128> {
        Some(1)
    }

    fn save_cluster_id(&self, _cluster_id: u128) -> io::Result<()> {
        Ok(())
    }
}

impl PeerMessages for Nowhere {
    fn handle(&self, _: NodeId, message: Bytes) -> Pin<Box<dyn Future<Output = Bytes> + Send + '_>> {
        Box::pin(async { message })
    }
}

const LEADER: Vote = Vote { term: 5, node: 1, committed: true };

/// Node 2 of three, without the others.
async fn follower() -> (Node, Arc<MemoryLog>) {
    let log = Arc::new(MemoryLog::default());
    let options = Options {
        node_id: 2,
        members: vec![Member { id: 1, address: "nowhere".into() }],
        timing: Timing { heartbeat_ms: 1000, election_min_ms: 20_000, election_max_ms: 40_000 },
        secret: Vec::new(),
        birth: Vec::new(),
        snapshots: SnapshotPolicy::default(),
        batch_commands_max: Options::BATCH_COMMANDS_MAX,
    };
    let parts = Parts {
        log: Arc::clone(&log) as Arc<dyn Log>,
        snapshots: Arc::new(MemorySnapshots::new()),
        runtime: Arc::new(SystemRuntime),
        network: Arc::new(NoNetwork),
        directory_id: 2,
        directory: Arc::new(Nowhere),
        messages: Arc::new(Nowhere),
    };
    (Node::open(options, parts).await.unwrap(), log)
}

fn members() -> Membership {
    let contact = |id| (id, Contact { address: "nowhere".into(), directory_id: u128::from(id) });
    Membership::new(vec![BTreeSet::from([1, 2, 3])], BTreeMap::from([1, 2, 3].map(contact))).unwrap()
}

/// Entries of the leader, the first of all being the membership.
fn append(indexes: std::ops::Range<u64>, committed: Option<u64>) -> Request {
    let id = |index| raft_log_id(LogId { term: 5, index });
    let entries = indexes.clone().map(|index| RaftEntry {
        log_id: id(index),
        payload: match index {
            0 => EntryPayload::Membership(members()),
            _ => EntryPayload::Normal(Batch(Bytes::from_static(&[1, 0]))),
        },
    });
    let request = AppendEntriesRequest {
        vote: raft_vote(LEADER),
        prev_log_id: indexes.start.checked_sub(1).map(id),
        entries: entries.collect(),
        leader_commit: committed.map(id),
    };
    Request::Append(Append::from_raft(request).unwrap())
}

/// A snapshot of the leader at index 30.
fn received(snapshots: &Arc<dyn Snapshots>) -> (SnapshotMeta, Staged) {
    let mut table = RouteInfo::default();
    table.apply_entry(LogId { term: 5, index: 30 }, &[]);
    let membership = StoredMembership::new(Some(raft_log_id(LogId { term: 5, index: 0 })), members());
    let source: Arc<dyn Snapshots> = Arc::new(MemorySnapshots::new());
    let state = State { table: Arc::new(table), membership: Arc::new(membership) };
    let meta = snapshot::build(&state, &source, 0).unwrap();
    let mut receiving = Receiving::begin(meta.clone(), snapshots).unwrap();
    let mut chunks = 0;
    while let Some(chunk) = source.chunk(meta.last, chunks).unwrap() {
        receiving.chunks(chunks, &[chunk]).unwrap();
        chunks += 1;
    }
    receiving.finish(chunks).unwrap()
}

/// The same with five entries of the leader, the members among them, and all of them committed.
pub(crate) async fn led() -> (Node, Arc<MemoryLog>) {
    let (node, log) = follower().await;
    assert!(matches!(node.core.answer_raft(append(0..5, Some(4))).await, Reply::Append(_)));
    (node, log)
}

/// Entries that are written, but neither flushed nor committed, with heartbeats behind them.
async fn log_in_motion() -> (Node, Arc<MemoryLog>) {
    let (node, log) = led().await;
    log.hang(true);
    for request in [append(5..20, Some(4)), append(20..20, Some(4)), append(10..20, Some(4))] {
        let core = Arc::clone(&node.core);
        tokio::spawn(async move { core.answer_raft(request).await });
    }
    while log.state().last.is_none_or(|last| last.index < 19) {
        sleep(REST_PAUSE).await;
    }
    sleep(20 * REST_PAUSE).await;
    (node, log)
}

#[tokio::test]
async fn a_snapshot_waits_until_the_log_rests() {
    let (node, log) = log_in_motion().await;
    let (meta, staged) = received(&node.core.snapshots);
    let core = Arc::clone(&node.core);
    let install = tokio::spawn(async move { core.install(LEADER, meta, staged).await });
    sleep(50 * REST_PAUSE).await;
    assert!(!install.is_finished());
    assert_eq!(node.core.published.applied().unwrap().index, 4);
    log.hang(false);
    let vote = timeout(Duration::from_secs(5), install).await.unwrap().unwrap().unwrap();
    assert_eq!(vote, raft_vote(LEADER));
    assert_eq!(node.core.published.applied().unwrap().index, 30);
    assert!(matches!(node.core.answer_raft(append(31..40, Some(39))).await, Reply::Append(_)));
    node.core.wait_applied(39, Instant::now() + Duration::from_secs(5)).await.unwrap();
    assert!(timeout(Duration::from_millis(10), node.died()).await.is_err());
    node.shutdown().await;
}

#[tokio::test]
async fn the_state_is_hashed_at_exactly_the_index_that_is_asked_for() {
    let (node, _log) = led().await;
    let core = &node.core;
    core.wait_applied(4, Instant::now() + Duration::from_secs(5)).await.unwrap();
    let empty = core.published.table().state_hash().total;
    assert_eq!(core.state_hash_at(4).await, Reply::StateHash(Some(empty)));
    assert_eq!(core.state_hash_at(2).await, Reply::StateHash(None), "that state is gone");
    let ahead = {
        let core = Arc::clone(core);
        tokio::spawn(async move { core.state_hash_at(6).await })
    };
    sleep(10 * REST_PAUSE).await;
    assert!(matches!(core.answer_raft(append(5..9, Some(8))).await, Reply::Append(_)));
    assert_eq!(ahead.await.unwrap(), Reply::StateHash(Some(empty)));

    assert!(node.status().diverged.is_empty());
    core.note_divergence(3, 4);
    assert_eq!(node.status().diverged, [3]);
    assert!(node.status().notice.contains("tables of node 3 differ"));
    node.shutdown().await;
}
