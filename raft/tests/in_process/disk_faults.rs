//! Disks that hang, fill up or break; snapshots that overtake the log.

use crate::common::{Cluster, eventually, in_secs, put};
use raft::{Lag, ProposeError, SnapshotPolicy};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use storage::disk::SpaceLevel;
use tokio::time::Instant;

#[tokio::test]
async fn a_leader_whose_disk_hangs_is_replaced_and_comes_back() {
    let cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let term = cluster.node(leader).leadership().borrow().term;
    let log = Arc::clone(&cluster.disks[leader as usize - 1].log);
    log.hang(true);
    // Something must be waiting for the disk.
    let stuck = cluster.node(leader).propose(put("k", "1"), Instant::now() + Duration::from_secs(4));
    let rest: Vec<u64> = (1..=3).filter(|id| *id != leader).collect();
    let replaced = async {
        eventually("a leader with a disk", || {
            rest.iter().any(|id| cluster.node(*id).leadership().borrow().leading)
        })
        .await;
    };
    let (_, ()) = tokio::join!(stuck, replaced);
    let new = cluster.leader_among(&rest).await;
    assert!(cluster.node(new).leadership().borrow().term > term);
    cluster.node(new).propose(put("k", "2"), in_secs(5)).await.unwrap();
    assert!(
        cluster.node(leader).status().alerts.contains("disk"),
        "{}",
        cluster.node(leader).status().alerts
    );
    // It cannot even note that another node leads, and hears no answers, since it is silent: no other node is to blame.
    let hung = Instant::now();
    while hung.elapsed() < Duration::from_secs(4) {
        let alerts = cluster.node(leader).status().alerts;
        assert!(!alerts.contains("not reached"), "{alerts}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    log.hang(false);
    eventually("it follows", || cluster.node(leader).table().kv("test", "k").is_some_and(|v| &**v == "2"))
        .await;
    cluster.stop().await;
}

#[tokio::test]
async fn a_full_disk_refuses_commands_and_takes_no_entries() {
    let cluster = Cluster::started(1, |_| ()).await;
    let node = cluster.node(1);
    cluster.disks[0].directory.set_space(SpaceLevel::Low);
    let refused = node.propose(put("k", "v"), in_secs(5)).await;
    assert!(matches!(&refused, Err(ProposeError::Refused(r)) if r.contains("full")), "{refused:?}");
    eventually("it says so", || node.status().alerts.contains("nearly full")).await;
    cluster.disks[0].directory.set_space(SpaceLevel::Ok);
    node.propose(put("k", "v"), in_secs(5)).await.unwrap();
    eventually("it is settled", || node.status().alerts.is_empty()).await;
    cluster.stop().await;
}

#[tokio::test]
async fn a_follower_with_a_full_disk_gets_no_entries_but_heartbeats() {
    let cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let term = cluster.node(leader).leadership().borrow().term;
    let full = cluster.follower_of(leader);
    let directory = Arc::clone(&cluster.disks[full as usize - 1].directory);
    eventually("it has caught up", || cluster.node(full).is_current()).await;
    directory.set_space(SpaceLevel::Min);
    let last = cluster.node(full).status().last;
    for i in 0..20 {
        cluster.node(leader).propose(put(&format!("k{i}"), "v"), in_secs(5)).await.unwrap();
    }
    let node = cluster.node(full);
    // It hears the leader, and from it how far it is behind.
    eventually("it knows that it is behind", || node.status().lag.is_behind).await;
    let status = node.status();
    assert_eq!(status.last, last);
    assert!(status.since_leader_contact.unwrap() < Duration::from_millis(500));
    assert!(status.lag.disk_full && status.lag.entries >= 20, "{:?}", status.lag);
    assert!(status.lag.age >= Duration::from_secs(3), "{:?}", status.lag);
    assert!(!node.is_current() && cluster.node(leader).is_current());
    directory.set_space(SpaceLevel::Ok);
    eventually("it is current", || node.is_current()).await;
    assert!(node.table().kv("test", "k19").is_some());
    assert_eq!(node.status().lag, Lag::default());
    assert_eq!(cluster.node(leader).leadership().borrow().term, term);
    cluster.stop().await;
}

#[tokio::test]
async fn log_is_kept_for_a_member_that_lags_until_it_is_too_much() {
    for (log_bytes_max, is_kept) in [(u64::MAX, true), (1, false)] {
        let policy = SnapshotPolicy { entries: 20, log_bytes_max, ..SnapshotPolicy::default() };
        let cluster = Cluster::started(3, |o| o.snapshots = policy).await;
        let leader = cluster.leader().await;
        let lags = cluster.follower_of(leader);
        let other = cluster.running().into_iter().find(|id| ![leader, lags].contains(id)).unwrap();
        cluster.disks[lags as usize - 1].directory.set_space(SpaceLevel::Min);
        let lacks = cluster.node(lags).status().last.unwrap().index + 1;
        let purges = |id: u64| cluster.node(id).status().purged.is_some_and(|purged| purged.index >= lacks);
        let writes = async {
            let mut number = 0;
            while !(purges(other) && (is_kept || purges(leader))) {
                number += 1;
                cluster.node(leader).propose(put("k", &number.to_string()), in_secs(5)).await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(20), writes).await.unwrap();
        assert_eq!(purges(leader), !is_kept, "at most {log_bytes_max} bytes");
        assert!(!purges(lags), "it has no such entry");
        cluster.stop().await;
    }
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_the_end() {
    let mut cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let late = cluster.follower_of(leader);
    cluster.node(leader).propose(put("k", "v"), in_secs(5)).await.unwrap();
    cluster.disks[leader as usize - 1].log.fail_reads();
    let node = cluster.node(leader).clone();
    let _ = node.propose(put("k", "w"), Instant::now() + Duration::from_secs(1)).await;
    let why = tokio::time::timeout(Duration::from_secs(10), node.died()).await.unwrap();
    assert!(why.contains("died"), "{why}");
    // The others go on without it, and nothing is lost.
    cluster.kill(leader);
    let next = cluster.leader().await;
    assert!(cluster.node(late).table().kv("test", "k").is_some());
    cluster.node(next).propose(put("k", "x"), in_secs(5)).await.unwrap();
    cluster.stop().await;
}

/// Under load, with tiny snapshots and a follower that keeps falling behind, received snapshots meet logs that are
/// still being appended and applied: openraft's core must survive it (its purge can overtake its apply).
#[tokio::test]
async fn snapshots_under_load_do_not_kill_the_core() {
    let policy = SnapshotPolicy { entries: 30, log_bytes_max: 1, ..SnapshotPolicy::default() };
    let cluster = Cluster::started(3, |o| o.snapshots = policy).await;
    let leader = cluster.leader().await;
    let late = cluster.follower_of(leader);
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..8)
        .map(|w| {
            let node = cluster.node(leader).clone();
            let stop = Arc::clone(&stop);
            tokio::spawn(async move {
                let mut i = 0;
                while !stop.load(Ordering::Relaxed) {
                    let key = format!("k{}", i % 50);
                    let _ = node.propose(put(&key, &format!("{w}-{i}")), in_secs(5)).await;
                    i += 1;
                }
                i
            })
        })
        .collect();
    let disk = Arc::clone(&cluster.disks[late as usize - 1].log);
    for round in 0..12 {
        cluster.partitions.isolate(late);
        tokio::time::sleep(Duration::from_millis(500)).await;
        cluster.partitions.heal(late);
        // Its disk is slow at times: what was appended is not flushed when the snapshot is there.
        if round % 3 == 0 {
            disk.hang(true);
            tokio::time::sleep(Duration::from_millis(250)).await;
            disk.hang(false);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut written = 0;
    for writer in writers {
        written += writer.await.unwrap();
    }
    let last = cluster.node(cluster.leader().await).read_barrier(in_secs(10)).await.unwrap();
    println!("{written} commands, up to {last}");
    for id in 1..=3 {
        let alive = tokio::time::timeout(Duration::from_millis(1), cluster.node(id).died()).await;
        assert!(alive.is_err(), "node {id}: {alive:?}");
        cluster.node(id).wait_applied(last, in_secs(20)).await.unwrap();
        assert_eq!(cluster.node(id).table().state_hash(), cluster.node(leader).table().state_hash());
    }
    assert!(cluster.node(late).status().purged.is_some());
    cluster.stop().await;
}
