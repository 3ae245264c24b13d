//! Requests that wait for a leader end when there is none, or when another one leads.

use crate::common::{Cluster, eventually, in_secs, put};
use raft::{Node, ProposeError};
use std::time::Duration;
use tokio::time::Instant;

/// Far more than a request may wait without a leader.
const DEADLINE_SECS: u64 = 30;
const SOON: Duration = Duration::from_secs(8);
const AT_ONCE: Duration = Duration::from_millis(300);

/// Proposes; gives the outcome and how long it took.
async fn propose(node: &Node, key: &str) -> (Result<(), ProposeError>, Duration) {
    let begun = Instant::now();
    let outcome = node.propose(put(key, "v"), in_secs(DEADLINE_SECS)).await;
    (outcome.map(drop), begun.elapsed())
}

/// What waits for a leader is refused, and then what comes is refused at once.
async fn refused(node: &Node) {
    let (outcome, took) = propose(node, "waits").await;
    assert!(matches!(outcome, Err(ProposeError::Refused(_))) && took < SOON, "{outcome:?} after {took:?}");
    let (outcome, took) = propose(node, "comes").await;
    assert!(matches!(outcome, Err(ProposeError::Refused(_))) && took < AT_ONCE, "{outcome:?} after {took:?}");
    let begun = Instant::now();
    let barrier = node.read_barrier(in_secs(DEADLINE_SECS)).await;
    assert!(barrier.is_err() && begun.elapsed() < AT_ONCE, "{barrier:?} after {:?}", begun.elapsed());
}

#[tokio::test]
async fn a_node_that_is_cut_off_refuses_at_once_until_it_is_back() {
    let cluster = Cluster::started(3, |_| ()).await;
    let isolated = cluster.follower_of(cluster.leader().await);
    let node = cluster.node(isolated);
    cluster.partitions.isolate(isolated);
    eventually("no leader is known", || node.status().leadership.leader.is_none()).await;
    refused(node).await;
    cluster.partitions.heal(isolated);
    eventually("a leader is known", || node.status().leadership.leader.is_some()).await;
    propose(node, "back").await.0.unwrap();
    cluster.stop().await;
}

/// What it lacks may have been acknowledged meanwhile, and that does not end with the first message of the leader.
#[tokio::test]
async fn a_node_that_was_cut_off_is_not_current_until_it_has_caught_up() {
    let cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let isolated = cluster.follower_of(leader);
    let node = cluster.node(isolated);
    eventually("all are current", || (1..=3).all(|id| cluster.node(id).is_current())).await;
    for round in 0..5 {
        cluster.partitions.isolate(isolated);
        eventually("it is not current", || !node.is_current()).await;
        let key = format!("k{round}");
        cluster.node(leader).propose(put(&key, "v"), in_secs(5)).await.unwrap();
        cluster.partitions.heal(isolated);
        let deadline = in_secs(30);
        while !node.is_current() {
            assert!(Instant::now() < deadline, "never current again");
            tokio::task::yield_now().await;
        }
        assert!(node.table().kv("test", &key).is_some(), "it would deny what was acknowledged");
    }
    cluster.stop().await;
}

/// A log alone does not say what was acknowledged after it ended.
#[tokio::test]
async fn a_node_that_starts_without_a_leader_is_not_current() {
    let mut cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    cluster.node(leader).propose(put("k", "v"), in_secs(5)).await.unwrap();
    cluster.all_have(&["k".to_owned()], leader).await;
    let alone = cluster.follower_of(leader);
    for id in 1..=3 {
        cluster.kill(id);
    }
    cluster.start(alone).await;
    let node = cluster.node(alone);
    eventually("it has its log", || node.table().kv("test", "k").is_some()).await;
    assert!(!node.is_current());
    cluster.stop().await;
}

#[tokio::test]
async fn a_node_whose_cluster_is_not_initialized_refuses_at_once() {
    let mut cluster = Cluster::new(3, |_| ());
    cluster.start(1).await;
    refused(cluster.node(1)).await;
    cluster.stop().await;
}

/// A paused or cut off leader never answers: what was sent to it must not hold up what comes after it.
#[tokio::test]
async fn a_write_that_was_sent_to_a_vanished_leader_ends_once_another_leads() {
    let cluster = Cluster::started(3, |_| ()).await;
    let old = cluster.leader().await;
    let asker = cluster.node(cluster.follower_of(old));
    propose(asker, "first").await.0.unwrap();
    cluster.partitions.deafen(old);
    let mut leadership = asker.leadership();
    let replaced = async {
        leadership.wait_for(|now| now.leader.is_some_and(|leader| leader != old)).await.unwrap();
        Instant::now()
    };
    let sent = async { (propose(asker, "sent").await.0, Instant::now()) };
    let (replaced, (outcome, ended)) = tokio::join!(replaced, sent);
    assert!(matches!(outcome, Err(ProposeError::Unknown(_))), "{outcome:?}");
    let late = ended.saturating_duration_since(replaced);
    assert!(late < Duration::from_secs(1), "{late:?} after another node led");
    propose(asker, "next").await.0.unwrap();
    cluster.partitions.undeafen(old);
    cluster.stop().await;
}
