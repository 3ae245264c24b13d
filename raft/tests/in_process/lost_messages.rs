//! Messages that are lost one way or come too late, and replies that are lost.

use crate::common::{Cluster, eventually, in_secs, put};
use raft::ProposeError;
use std::sync::Arc;
use std::time::Duration;
use storage::log::Log;
use tokio::time::Instant;

/// Its heartbeats would keep the others quiet for ever, if it went on for ever.
#[tokio::test]
async fn a_leader_that_receives_nothing_is_replaced_although_its_heartbeats_arrive() {
    let cluster = Cluster::started(3, |_| ()).await;
    let deaf = cluster.leader().await;
    let rest: Vec<u64> = (1..=3).filter(|id| *id != deaf).collect();
    let term = cluster.node(deaf).leadership().borrow().term;
    let mut acknowledged = Vec::new();
    for i in 0..20 {
        let key = format!("before{i}");
        cluster.node(rest[i % 2]).propose(put(&key, "v"), in_secs(5)).await.unwrap();
        acknowledged.push(key);
    }

    cluster.partitions.deafen(deaf);
    let deafened = Instant::now();
    let at_the_deaf = cluster.node(deaf).clone();
    let lost = tokio::spawn(async move { at_the_deaf.propose(put("lost", "v"), in_secs(3)).await });
    eventually("one of the others leads", || {
        rest.iter().any(|id| cluster.node(*id).leadership().borrow().leading)
    })
    .await;
    let without_leader = deafened.elapsed();
    assert!(without_leader < Duration::from_secs(5), "{without_leader:?}");
    let lost = lost.await.unwrap();
    assert!(lost.is_err(), "acknowledged without a majority: {lost:?}");
    assert_eq!(cluster.node(deaf).is_leader_with_lease(), None);
    for (i, id) in rest.iter().enumerate() {
        let key = format!("after{i}");
        cluster.node(*id).propose(put(&key, "v"), in_secs(5)).await.unwrap();
        acknowledged.push(key);
    }

    cluster.partitions.undeafen(deaf);
    let now = cluster.leader().await;
    assert_ne!(now, deaf);
    assert!(cluster.node(now).leadership().borrow().term > term);
    cluster.all_have(&acknowledged, now).await;
    cluster.stop().await;
}

/// It may have been carried out: only the caller may decide to send it again.
#[tokio::test]
async fn a_command_whose_answer_is_lost_is_unknown_and_not_sent_again() {
    let cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let asker = cluster.node(cluster.follower_of(leader));
    asker.propose(put("first", "v"), in_secs(5)).await.unwrap();
    cluster.partitions.lose_answer(asker.status().node_id, "the-needle");
    let asked = Instant::now();
    let answer = asker.propose(put("the-needle", "v"), in_secs(20)).await;
    assert!(matches!(&answer, Err(ProposeError::Unknown(_))), "{answer:?}");
    assert!(asked.elapsed() < Duration::from_secs(10), "there was time to send it again");
    assert_eq!(cluster.partitions.times_sent(), 1);
    // It was carried out, as it happens; and a command of now has an outcome again.
    let done = asker.propose(put("next", "v"), in_secs(5)).await.unwrap();
    cluster.node(leader).wait_applied(done.position.index, in_secs(5)).await.unwrap();
    assert!(cluster.node(leader).table().kv("test", "the-needle").is_some());
    cluster.stop().await;
}

/// The caller has given up and may do something else by now: the leader must not carry it out later.
#[tokio::test]
async fn a_forwarded_command_whose_time_is_over_is_dropped_by_the_leader() {
    let cluster = Cluster::started(2, |_| ()).await;
    let leader = cluster.leader().await;
    let follower = cluster.node(cluster.follower_of(leader));
    follower.propose(put("first", "v"), in_secs(5)).await.unwrap();
    // Both entries that may be under way wait for the leader's disk, without which two nodes have no majority.
    let log = Arc::clone(&cluster.disks[leader as usize - 1].log);
    let last = log.state().last.unwrap().index;
    log.hang(true);
    let mut waiting = Vec::new();
    for (key, index) in [("a", last + 1), ("b", last + 2)] {
        let node = cluster.node(leader).clone();
        waiting.push(tokio::spawn(async move { node.propose(put(key, "v"), in_secs(10)).await }));
        eventually("it is in the log", || log.state().last.is_some_and(|id| id.index == index)).await;
    }
    let late = follower.propose(put("late", "v"), Instant::now() + Duration::from_millis(400)).await;
    assert!(matches!(&late, Err(ProposeError::Unknown(_))), "it did not come as far as the leader: {late:?}");
    log.hang(false);
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
    let done = follower.propose(put("next", "v"), in_secs(5)).await.unwrap();
    assert!(follower.table().kv("test", "next").is_some());
    assert_eq!(done.position.index, last + 3, "more was carried out than was asked for");
    assert!(follower.table().kv("test", "late").is_none(), "carried out after its time");
    cluster.stop().await;
}
