//! Owners of a follower, without the other nodes.
//!
//! A received snapshot against a log that does not rest: openraft has an open fault there, a purge can overtake the apply,
//! and its core panics. The installer waits until the log rests.

use super::assemble::assemble;
use super::{Node, Parts};
use crate::api::{Directory, Member, NodeId, Options, PeerMessages, Phase, SnapshotPolicy, Timing};
use crate::consensus::applied_state::AppliedState;
use crate::consensus::types::{
    Batch, Membership, RaftEntry, StoredMembership, member_set, raft_log_id, raft_vote,
};
use crate::consensus::{conversions, snapshot};
use crate::health::state_check::StateCheck;
use crate::local::{Contact, Members};
use crate::observer::RaftObserver;
use crate::peer::message::{Reply, Request};
use crate::peer::{BoxedStream, NetworkFuture, PeerNetwork};
use crate::rpc_handlers::raft::RaftRpc;
use crate::snapshots::receiving::Receiving;
use bytes::Bytes;
use openraft::EntryPayload;
use openraft::raft::AppendEntriesRequest;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use storage::checks::memory_log::MemoryLog;
use storage::log::Log;
use storage::runtime::SystemRuntime;
use storage::snapshots::{MemorySnapshots, SnapshotMeta, Snapshots};
use storage::{LogId, RouteInfo, Vote};
use tokio::time::{Instant, sleep, timeout};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

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

/// Node 2 of three, without the others, and the owners that a test calls.
struct Follower {
    node: Node,
    log: Arc<MemoryLog>,
    rpc: Arc<RaftRpc>,
    observer: Arc<RaftObserver>,
    state_check: Arc<StateCheck>,
}

async fn follower() -> Follower {
    let log = Arc::new(MemoryLog::default());
    let options = Options {
        node_id: 2,
        members: vec![Member { id: 1, address: "nowhere".into() }],
        timing: Timing { heartbeat_ms: 1000, election_min_ms: 20_000, election_max_ms: 40_000 },
        secret: Vec::new(),
        initial_commands: Vec::new(),
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
    let (node, tasks) = assemble(options, parts).await.unwrap();
    let (rpc, observer) = (Arc::clone(&tasks.rpc.raft), Arc::clone(&tasks.observer));
    let state_check = Arc::clone(&tasks.state_check);
    tasks.start().await;
    Follower { node, log, rpc, observer, state_check }
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
    Request::Append(conversions::append(request).unwrap())
}

/// A snapshot of the leader at index 30.
fn received(snapshots: &Arc<dyn Snapshots>) -> (SnapshotMeta, snapshot::Staged) {
    let mut table = RouteInfo::default();
    table.apply_entry(LogId { term: 5, index: 30 }, &[]);
    let membership = StoredMembership::new(Some(raft_log_id(LogId { term: 5, index: 0 })), members());
    let source: Arc<dyn Snapshots> = Arc::new(MemorySnapshots::new());
    let state = AppliedState { table: Arc::new(table), membership: Arc::new(membership) };
    let (meta, _) = snapshot::build(&state, &source, 0).unwrap();
    let mut receiving = Receiving::begin(meta.clone(), snapshots).unwrap();
    let mut chunks = 0;
    let stored = source.open(meta.last).unwrap();
    while let Some(chunk) = stored.chunk(chunks).unwrap() {
        receiving.chunks(chunks, &[chunk]).unwrap();
        chunks += 1;
    }
    receiving.finish(chunks).unwrap()
}

/// The same with five entries of the leader, the members among them, and all of them committed.
async fn led() -> Follower {
    let follower = follower().await;
    assert!(matches!(follower.rpc.handle(append(0..5, Some(4))).await, Reply::Append(_)));
    follower
}

/// Entries that are written, but neither flushed nor committed, with heartbeats behind them.
async fn log_in_motion() -> Follower {
    let follower = led().await;
    let log = &follower.log;
    log.hang(true);
    for request in [append(5..20, Some(4)), append(20..20, Some(4)), append(10..20, Some(4))] {
        let rpc = Arc::clone(&follower.rpc);
        tokio::spawn(async move { rpc.handle(request).await });
    }
    while log.state().last.is_none_or(|last| last.index < 19) {
        sleep(PAUSE).await;
    }
    sleep(20 * PAUSE).await;
    follower
}

#[tokio::test]
async fn a_snapshot_waits_until_the_log_rests() {
    let Follower { node, log, rpc, .. } = log_in_motion().await;
    let (meta, staged) = received(&node.owners.status.snapshots);
    let installer = Arc::clone(&rpc.installer);
    let install = tokio::spawn(async move { installer.install(LEADER, meta, staged).await });
    sleep(50 * PAUSE).await;
    assert!(!install.is_finished());
    // The leader is heard meanwhile, and nothing that it has committed is applied.
    let heartbeat = rpc.handle(append(20..20, Some(19)));
    let reply = timeout(Duration::from_secs(2), heartbeat).await.expect("a heartbeat waits");
    assert!(matches!(reply, Reply::Append(_)), "{reply:?}");
    assert!(node.status().since_leader_contact.unwrap() < Duration::from_secs(1));
    sleep(20 * PAUSE).await;
    assert!(!install.is_finished());
    assert_eq!(node.owners.applied.applied().unwrap().index, 4);
    log.hang(false);
    let vote = timeout(Duration::from_secs(5), install).await.unwrap().unwrap().unwrap();
    assert_eq!(vote, raft_vote(LEADER));
    assert_eq!(node.owners.applied.applied().unwrap().index, 30);
    assert!(matches!(rpc.handle(append(31..40, Some(39))).await, Reply::Append(_)));
    node.wait_applied(39, Instant::now() + Duration::from_secs(5)).await.unwrap();
    assert!(timeout(Duration::from_millis(10), node.died()).await.is_err());
    node.shutdown().await;
}

#[tokio::test]
async fn the_state_is_hashed_at_exactly_the_wanted_index() {
    let Follower { node, rpc, state_check, .. } = led().await;
    node.wait_applied(4, Instant::now() + Duration::from_secs(5)).await.unwrap();
    let empty = node.table().state_hash().total;
    assert_eq!(state_check.hash_at(4).await, Some(empty));
    assert_eq!(state_check.hash_at(2).await, None, "that state is gone");
    let ahead = {
        let state_check = Arc::clone(&state_check);
        tokio::spawn(async move { state_check.hash_at(6).await })
    };
    sleep(10 * PAUSE).await;
    assert!(matches!(rpc.handle(append(5..9, Some(8))).await, Reply::Append(_)));
    assert_eq!(ahead.await.unwrap(), Some(empty));

    assert!(node.status().diverged.is_empty());
    state_check.record_divergence(3, 4);
    assert_eq!(node.status().diverged, [3]);
    assert!(node.status().alerts.contains("tables of node 3 differ"));
    node.shutdown().await;
}

/// openraft's core begins beside the observer, and until then reports no members at all.
#[tokio::test]
async fn no_node_is_removed_before_raft_has_begun() {
    let Follower { node, observer, .. } = led().await;
    while node.status().members.len() < 3 {
        sleep(PAUSE).await;
    }
    observer.observe_members(Members::default());
    assert_ne!(node.status().phase, Phase::Removed);
    assert_eq!(node.status().members.len(), 3);
    node.shutdown().await;
}

/// The advice of the alarm is to replace the node that disagrees: once it is gone, so is the alarm.
#[tokio::test]
async fn the_alarm_about_a_node_ends_with_its_removal() {
    let Follower { node, observer, state_check, .. } = led().await;
    while node.status().members.len() < 3 {
        sleep(PAUSE).await;
    }
    state_check.record_divergence(3, 4);
    assert_eq!(node.status().diverged, [3]);
    let contact = |id: u64| (id, Contact { address: "nowhere".into(), directory_id: u128::from(id) });
    let without = Membership::new(vec![BTreeSet::from([1, 2])], BTreeMap::from([1, 2].map(contact))).unwrap();
    let without = StoredMembership::new(Some(raft_log_id(LogId { term: 5, index: 5 })), without);
    let without = member_set(&without);
    observer.observe_members(Members { effective: without.clone(), committed: without });
    let status = node.status();
    assert!(status.diverged.is_empty(), "{:?}", status.diverged);
    assert!(!status.alerts.contains("node 3"), "{}", status.alerts);
    node.shutdown().await;
}
