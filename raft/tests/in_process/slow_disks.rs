//! Disks whose syncs take seconds, at two of three nodes: writes go on at their pace, and the leader stays.

use crate::common::{Cluster, eventually, in_secs, put};
use raft::NodeId;
use std::sync::Arc;
use std::time::Duration;
use storage::checks::memory_log::MemoryLog;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// A sync takes this long. Longer than three election timeouts, after which a disk counts as hung.
const SYNC: Duration = Duration::from_secs(2);
/// A write waits for the sync that runs when it comes, and for its own; a batch before it may need as long again.
const WRITE_MAX: Duration = Duration::from_secs(10);
/// So many writes, one after the other.
const WRITES: usize = 4;

/// From now on, until the task is aborted, each sync of a log takes [`SYNC`].
fn slow_down(log: &Arc<MemoryLog>) -> JoinHandle<()> {
    let log = Arc::clone(log);
    tokio::spawn(async move {
        loop {
            log.hang(true);
            sleep(SYNC).await;
            log.hang(false);
        }
    })
}

/// Writes go on, in one term, while two nodes are slow.
async fn writes_go_on(cluster: &Cluster, slow: [NodeId; 2]) {
    let leader = cluster.leader().await;
    let term = cluster.node(leader).leadership().borrow().term;
    let slowed: Vec<_> = slow.map(|id| slow_down(&cluster.disks[id as usize - 1].log)).into();
    for number in 0..WRITES {
        let begin = Instant::now();
        let key = format!("k{number}");
        let written = cluster.node(leader).propose(put(&key, "v"), begin + WRITE_MAX).await;
        assert!(written.is_ok(), "write {number}, with slow disks at {slow:?}: {written:?}");
    }
    for id in 1..=3 {
        let state = *cluster.node(id).leadership().borrow();
        assert_eq!((state.leader, state.term), (Some(leader), term), "at node {id}, slow {slow:?}");
    }
    slowed.iter().for_each(JoinHandle::abort);
    for id in slow {
        cluster.disks[id as usize - 1].log.hang(false);
    }
    eventually("all have the last write", || {
        (1..=3).all(|id| cluster.node(id).table().kv("test", &format!("k{}", WRITES - 1)).is_some())
    })
    .await;
}

#[tokio::test]
async fn slow_disks_at_both_followers_cause_no_election() {
    let cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let followers: Vec<NodeId> = (1..=3).filter(|id| *id != leader).collect();
    writes_go_on(&cluster, [followers[0], followers[1]]).await;
    cluster.node(leader).propose(put("k", "v"), in_secs(5)).await.unwrap();
    cluster.stop().await;
}

#[tokio::test]
async fn slow_disks_at_the_leader_and_a_follower_cause_no_election() {
    let cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    writes_go_on(&cluster, [leader, cluster.follower_of(leader)]).await;
    cluster.stop().await;
}
