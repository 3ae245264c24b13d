//! Three nodes over real sockets: forwarding, failover, catching up, being cut off.

use crate::common::{Cluster, eventually, in_secs, put, put_in};
use bytes::Bytes;
use raft::{Phase, ProposeError, SnapshotPolicy};
use std::time::Duration;
use storage::log::Log;
use storage::log_place::{LogPlace, TruncatedTail};
use storage::{Change, Command, Outcome};
use tokio::time::Instant;

#[tokio::test]
async fn any_node_carries_commands_out() {
    let cluster = Cluster::started(3, |o| o.initial_commands = vec![put("initial", "yes")]).await;
    for id in 1..=3 {
        let node = cluster.node(id);
        let done = node.propose(put(&format!("by{id}"), "v"), in_secs(5)).await.unwrap();
        // The node that was asked reads what it wrote.
        assert!(node.table().kv("test", &format!("by{id}")).is_some());
        assert!(node.table().revision().unwrap().index >= done.position.index);
    }
    let last = cluster.node(1).read_barrier(in_secs(5)).await.unwrap();
    for id in 1..=3 {
        let node = cluster.node(id);
        node.wait_applied(last, in_secs(5)).await.unwrap();
        assert!(node.table().kv("test", "initial").is_some());
        assert_eq!(node.table().state_hash(), cluster.node(1).table().state_hash());
        eventually("recovered", || node.status().phase == Phase::Recovered).await;
        assert_eq!(node.status().alerts, "");
        assert_eq!(node.status().members.len(), 3);
    }
    cluster.stop().await;
}

#[tokio::test]
async fn a_truncated_tail_is_an_alert_until_the_node_has_caught_up() {
    let mut cluster = Cluster::started(3, |_| ()).await;
    cluster.node(2).propose(put("k", "v"), in_secs(5)).await.unwrap();
    (1..=3).for_each(|id| cluster.kill(id));
    let last = cluster.disks[0].log.state().last;
    let place = LogPlace { segment: 1, offset: 640 };
    let tail = TruncatedTail { place, bytes: 5, last, copy: "cut-1".into() };
    *cluster.disks[0].directory.truncated_tail.lock().unwrap() = Some(tail);

    cluster.start(1).await;
    let alerts = cluster.node(1).status().alerts;
    assert!(alerts.contains("5 bytes after entry"), "{alerts}");
    cluster.start(2).await;
    cluster.leader().await;
    eventually("the truncated tail is forgotten", || {
        cluster.disks[0].directory.truncated_tail.lock().unwrap().is_none()
    })
    .await;
    eventually("and shown no more", || !cluster.node(1).status().alerts.contains("cut off")).await;
    cluster.stop().await;
}

#[tokio::test]
async fn messages_arrive_in_order_with_their_sender() {
    let cluster = Cluster::started(3, |_| ()).await;
    let node = cluster.node(2);
    let asked = (0..50).map(|i| node.message(3, 1, Bytes::from(format!("{i}")), in_secs(5)));
    for (i, answer) in futures_util::future::join_all(asked).await.into_iter().enumerate() {
        assert_eq!(answer.unwrap(), format!("2:{i}"));
    }
    let no_node = node.message(9, 0, Bytes::new(), in_secs(1)).await.unwrap_err();
    assert_eq!(no_node.to, 9);
    cluster.stop().await;
}

#[tokio::test]
async fn no_acknowledged_write_is_lost_when_the_leader_dies() {
    let mut cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let writer = cluster.node(cluster.follower_of(leader)).clone();
    let writing = tokio::spawn(async move {
        let mut acknowledged = Vec::new();
        for i in 0..400 {
            let key = format!("k{i}");
            match writer.propose(put(&key, "v"), in_secs(10)).await {
                Ok(done) => {
                    assert_eq!(done.outcome, Outcome::Done { changed: true });
                    acknowledged.push(key);
                }
                Err(ProposeError::Unknown(_)) => {}
                Err(ProposeError::Refused(reason)) => panic!("refused although there is time: {reason}"),
            }
        }
        acknowledged
    });
    tokio::time::sleep(Duration::from_millis(150)).await;
    let killed = Instant::now();
    cluster.kill(leader);
    let next = cluster.leader().await;
    println!("next leader after {:?}", killed.elapsed());
    assert_ne!(next, leader);
    let acknowledged = writing.await.unwrap();
    assert!(acknowledged.len() > 300, "{} acknowledged", acknowledged.len());

    // The killed node comes back and catches up from the log.
    cluster.start(leader).await;
    cluster.all_have(&acknowledged, next).await;
    cluster.stop().await;
}

#[tokio::test]
async fn a_node_without_a_quorum_names_no_leader_and_the_voters_it_misses() {
    for leads in [true, false] {
        names_no_leader_without_a_quorum(leads).await;
    }
}

async fn names_no_leader_without_a_quorum(leads: bool) {
    let mut cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let left = if leads { leader } else { cluster.follower_of(leader) };
    assert!(cluster.node(left).status().leadership.leader.is_some());
    let dead: Vec<_> = (1..=3).filter(|id| *id != left).collect();
    for id in &dead {
        cluster.kill(*id);
    }
    eventually("it says so", || {
        let status = cluster.node(left).status();
        status.leadership.leader.is_none()
            && !status.leadership.leading
            && status.alerts.contains("no leader with a majority was heard")
            && dead.iter().all(|id| status.alerts.contains(&format!("node {id} (")))
    })
    .await;
    for id in dead {
        cluster.start(id).await;
    }
    cluster.leader().await;
    eventually("it is settled", || {
        let status = cluster.node(left).status();
        status.leadership.leader.is_some() && status.alerts.is_empty()
    })
    .await;
    cluster.stop().await;
}

#[tokio::test]
async fn an_isolated_node_comes_back_without_moving_the_term() {
    let cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let isolated = cluster.follower_of(leader);
    let term = cluster.node(leader).leadership().borrow().term;
    cluster.partitions.isolate(isolated);
    // Several election timeouts.
    tokio::time::sleep(Duration::from_millis(3000)).await;
    cluster.node(leader).propose(put("k", "v"), in_secs(5)).await.unwrap();
    let cut_off = cluster.node(isolated);
    assert!(cut_off.status().since_leader_contact.unwrap() > Duration::from_millis(1500));
    let stale = cut_off.read_barrier(Instant::now() + Duration::from_millis(300)).await;
    assert!(stale.is_err(), "{stale:?}");
    let alone = cut_off.propose(put("k", "w"), Instant::now() + Duration::from_millis(500)).await;
    assert!(matches!(alone, Err(ProposeError::Refused(_))), "{alone:?}");
    cluster.partitions.heal(isolated);
    eventually("caught up", || cut_off.table().kv("test", "k").is_some()).await;
    assert_eq!(cluster.leader().await, leader);
    assert_eq!(cluster.node(isolated).leadership().borrow().term, term);
    cluster.stop().await;
}

#[tokio::test]
async fn an_isolated_leader_has_no_lease_and_is_replaced() {
    let cluster = Cluster::started(3, |_| ()).await;
    let old = cluster.leader().await;
    let old_term = cluster.node(old).leadership().borrow().term;
    cluster.partitions.isolate(old);
    let rest: Vec<u64> = (1..=3).filter(|id| *id != old).collect();
    let new = cluster.leader_among(&rest).await;
    assert_eq!(cluster.node(old).is_leader_with_lease(), None);
    cluster.node(new).propose(put("k", "new"), in_secs(5)).await.unwrap();
    // What changes nothing in its stale table is no success either.
    let stale = cluster.node(old).propose(put("k", "old"), Instant::now() + Duration::from_millis(500)).await;
    assert!(stale.is_err(), "{stale:?}");
    let bound = cluster
        .node(old)
        .propose_in_term(old_term, put("k", "evicted"), Instant::now() + Duration::from_millis(500))
        .await;
    assert!(bound.is_err(), "{bound:?}");
    cluster.partitions.heal(old);
    eventually("the old leader follows", || {
        cluster.node(old).table().kv("test", "k").is_some_and(|v| &**v == "new")
    })
    .await;
    let late = cluster.node(old).propose_in_term(old_term, put("k", "evicted"), in_secs(5)).await;
    assert!(matches!(late, Err(ProposeError::Refused(_))), "{late:?}");
    let last = cluster.node(new).read_barrier(in_secs(5)).await.unwrap();
    cluster.node(old).wait_applied(last, in_secs(5)).await.unwrap();
    assert_eq!(cluster.node(old).table().kv("test", "k").map(|v| &**v), Some("new"));
    cluster.stop().await;
}

#[tokio::test]
async fn a_node_catches_up_by_snapshot() {
    let policy = SnapshotPolicy { entries: 40, ..SnapshotPolicy::default() };
    let mut cluster = Cluster::started(3, |o| o.snapshots = policy).await;
    let leader = cluster.leader().await;
    let late = cluster.follower_of(leader);
    cluster.kill(late);
    for i in 0..200 {
        cluster.node(leader).propose(put(&format!("k{i}"), &"x".repeat(3000)), in_secs(5)).await.unwrap();
        if i % 40 == 0 {
            tokio::time::sleep(Duration::from_millis(450)).await;
        }
    }
    eventually("the log is purged", || cluster.node(leader).status().purged.is_some_and(|p| p.index > 40))
        .await;
    cluster.start(late).await;
    let last = cluster.node(leader).read_barrier(in_secs(5)).await.unwrap();
    cluster.node(late).wait_applied(last, in_secs(20)).await.unwrap();
    let status = cluster.node(late).status();
    assert!(status.purged.is_some_and(|p| p.index > 40), "{status:?}");
    assert_eq!(cluster.node(late).table().state_hash(), cluster.node(leader).table().state_hash());
    eventually("recovered", || cluster.node(late).status().phase == Phase::Recovered).await;
    // And again, from its own disk.
    cluster.kill(late);
    cluster.start(late).await;
    cluster.node(late).wait_applied(last, in_secs(20)).await.unwrap();
    assert_eq!(cluster.node(late).table().state_hash(), cluster.node(leader).table().state_hash());
    cluster.stop().await;
}

#[tokio::test]
async fn large_entries_are_sent_in_bounded_pieces() {
    let mut cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let term = cluster.node(leader).leadership().borrow().term;
    let late = cluster.follower_of(leader);
    cluster.kill(late);
    for i in 0..20 {
        let value = format!("{i}").repeat(5 << 20 >> (i.to_string().len() - 1));
        cluster.node(leader).propose(put_in(&format!("n{i}"), "k", &value), in_secs(20)).await.unwrap();
    }
    cluster.start(late).await;
    let last = cluster.node(leader).read_barrier(in_secs(5)).await.unwrap();
    cluster.node(late).wait_applied(last, in_secs(60)).await.unwrap();
    assert_eq!(cluster.node(leader).leadership().borrow().term, term, "an election while catching up");
    cluster.stop().await;
}

#[tokio::test]
async fn leadership_is_transferred_to_the_wanted_voter() {
    let cluster = Cluster::started(3, |_| ()).await;
    let old = cluster.leader().await;
    let to = cluster.follower_of(old);
    let asked_at = (1..=3).find(|id| *id != old && *id != to).unwrap();
    assert_eq!(cluster.node(asked_at).transfer(Some(to), in_secs(5)).await.unwrap(), to);
    assert_eq!(cluster.leader().await, to);
    let unknown = cluster.node(asked_at).transfer(Some(7), in_secs(5)).await;
    assert!(matches!(unknown, Err(ProposeError::Refused(_))), "{unknown:?}");
    cluster.node(asked_at).propose(put("k", "v"), in_secs(5)).await.unwrap();

    // A leader that stops transfers its leadership first.
    let begin = Instant::now();
    cluster.node(to).shutdown().await;
    println!("stopped after {:?}", begin.elapsed());
    assert!(begin.elapsed() < Duration::from_secs(5));
    let rest: Vec<u64> = (1..=3).filter(|id| *id != to).collect();
    cluster.leader_among(&rest).await;
    cluster.node(asked_at).propose(put("k", "w"), in_secs(5)).await.unwrap();
    cluster.stop().await;
}

#[tokio::test]
async fn conflicts_pass_through() {
    let cluster = Cluster::started(3, |_| ()).await;
    let follower = cluster.follower_of(cluster.leader().await);
    let command = Command {
        origin: Default::default(),
        change: Change::RegisterTopic(storage::command::RegisterTopic {
            topic: "t".into(),
            queues: vec![(
                "nobody".into(),
                storage::command::QueueConfig { read: 1, write: 1, perm: 6, sys_flag: 0 },
            )],
        }),
    };
    let done = cluster.node(follower).propose(command, in_secs(5)).await.unwrap();
    assert_eq!(done.outcome, Outcome::UnknownBroker { broker: "nobody".into() });
    cluster.stop().await;
}

#[tokio::test]
async fn a_barrier_sees_what_another_node_acknowledged() {
    let mut cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    for round in 0..60 {
        if round == 30 {
            cluster.kill(leader);
            cluster.leader().await;
        }
        let ids = cluster.running();
        let (writer, reader) = (ids[round % ids.len()], ids[(round + 1) % ids.len()]);
        let value = round.to_string();
        cluster.node(writer).propose(put("k", &value), in_secs(10)).await.unwrap();
        cluster.node(reader).read_barrier(in_secs(10)).await.unwrap();
        assert_eq!(cluster.node(reader).table().kv("test", "k").map(|v| v.to_string()), Some(value));
    }
    cluster.stop().await;
}
