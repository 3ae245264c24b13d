//! The bootstrap of a cluster, and all the cases in which nodes must form none.

use crate::common::{Cluster, Disk, eventually, in_secs, put};
use raft::{MemberChange, Phase};
use std::time::Duration;

/// Long enough for a bootstrap or an election that must not happen.
async fn a_while() {
    tokio::time::sleep(Duration::from_millis(2500)).await;
}

#[tokio::test]
async fn all_listed_nodes_are_needed_once() {
    let mut cluster = Cluster::new(3, |o| o.initial_commands = vec![put("initial", &"once".repeat(3))]);
    cluster.start(1).await;
    cluster.start(2).await;
    a_while().await;
    for id in [1, 2] {
        let status = cluster.node(id).status();
        assert_eq!((status.phase, status.cluster_id), (Phase::Waiting, None));
        assert!(status.alerts.contains("Missing: node 3"), "{}", status.alerts);
    }
    cluster.start(3).await;
    let deadline = in_secs(20);
    let mut ready = 0;
    while ready < 3 {
        assert!(tokio::time::Instant::now() < deadline, "never ready");
        tokio::task::yield_now().await;
        let may_answer = |id: &u64| cluster.node(*id).status().phase == Phase::Recovered;
        let answering: Vec<u64> = (1..=3).filter(may_answer).collect();
        for id in &answering {
            assert!(cluster.node(*id).table().kv("test", "initial").is_some(), "node {id} answers too early");
        }
        ready = answering.len();
    }
    let cluster_id = cluster.node(1).status().cluster_id;
    assert!(cluster_id.is_some());

    // Afterwards two of them are enough, and nothing is asked.
    for id in 1..=3 {
        assert_eq!(cluster.node(id).status().cluster_id, cluster_id);
        cluster.kill(id);
    }
    cluster.start(2).await;
    cluster.start(3).await;
    cluster.leader().await;
    cluster.node(2).propose(put("k", "v"), in_secs(5)).await.unwrap();
    assert_eq!(cluster.node(2).status().cluster_id, cluster_id);
    cluster.stop().await;
}

/// Initial commands in later options change nothing, although the cluster has not had a command yet.
#[tokio::test]
async fn a_cluster_without_initial_commands_takes_none_later() {
    let mut cluster = Cluster::started(3, |_| ()).await;
    let recovered = |cluster: &Cluster| (1..=3).all(|id| cluster.node(id).status().phase == Phase::Recovered);
    eventually("all are ready", || recovered(&cluster)).await;
    for id in 1..=3 {
        cluster.kill(id);
        cluster.options[id as usize - 1].initial_commands = vec![put("initial", "late")];
    }
    for id in 1..=3 {
        cluster.start(id).await;
    }
    eventually("all are ready again, without a command", || recovered(&cluster)).await;
    let leader = cluster.leader().await;
    cluster.node(leader).propose(put("k", "v"), in_secs(5)).await.unwrap();
    assert!(cluster.node(leader).table().kv("test", "initial").is_none());
    cluster.stop().await;
}

#[tokio::test]
async fn nodes_with_other_members_or_other_initial_commands_wait() {
    let mut cluster = Cluster::new(2, |_| ());
    cluster.options[1].members[0].address = "127.0.0.2:1".into();
    let listed = cluster.options[0].members.clone();
    cluster.start(1).await;
    cluster.start(2).await;
    a_while().await;
    let alerts = cluster.node(1).status().alerts;
    assert!(alerts.contains("other --members"), "{alerts}");
    assert_eq!(cluster.node(1).status().cluster_id, None);
    cluster.kill(2);

    cluster.options[1].members = listed;
    cluster.options[1].initial_commands = vec![put("initial", "differently")];
    cluster.start(2).await;
    eventually("both say so", || {
        (1..=2).all(|id| cluster.node(id).status().alerts.contains("other settings"))
    })
    .await;
    assert_eq!(cluster.node(1).status().cluster_id, None);
    cluster.kill(2);

    cluster.options[1].initial_commands = Vec::new();
    cluster.start(2).await;
    cluster.leader().await;
    cluster.stop().await;
}

#[tokio::test]
async fn unauthenticated_peers_are_refused() {
    let mut cluster = Cluster::new(2, |_| ());
    cluster.options[1].secret = b"guessed".to_vec();
    cluster.start(1).await;
    cluster.start(2).await;
    a_while().await;
    for id in [1, 2] {
        let status = cluster.node(id).status();
        assert_eq!(status.cluster_id, None);
        assert!(status.alerts.contains("is the peer secret the same"), "{}", status.alerts);
    }
    cluster.stop().await;
}

#[tokio::test]
async fn a_wiped_member_gets_commands_to_run_and_no_traffic() {
    let mut cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let term = cluster.node(leader).leadership().borrow().term;
    let wiped = cluster.follower_of(leader);
    cluster.kill(wiped);
    cluster.disks[wiped as usize - 1] = Disk::new(77);
    cluster.start(wiped).await;
    let commands = format!("raft-namesrv members remove {wiped}");
    eventually("the wiped node and the leader say what to do", || {
        [wiped, leader].iter().all(|id| cluster.node(*id).status().alerts.contains(&commands))
    })
    .await;
    a_while().await;
    let status = cluster.node(wiped).status();
    assert_eq!((status.phase, status.cluster_id, status.last), (Phase::Waiting, None, None));
    assert_eq!(cluster.node(leader).leadership().borrow().term, term);
    cluster.node(leader).propose(put("k", "v"), in_secs(5)).await.unwrap();
    cluster.node(leader).change_members(MemberChange::Remove(wiped), in_secs(10)).await.unwrap();
    eventually("nothing is left to do", || {
        let voters = (1..=3).filter(|id| *id != wiped);
        voters.into_iter().all(|id| cluster.node(id).status().alerts.is_empty())
    })
    .await;
    cluster.stop().await;
}

#[tokio::test]
async fn two_wiped_members_of_three_form_no_cluster() {
    let mut cluster = Cluster::started(3, |_| ()).await;
    for id in 1..=3 {
        cluster.kill(id);
    }
    for id in [1, 2] {
        cluster.disks[id - 1] = Disk::new(700 + id as u128);
    }
    for id in 1..=3 {
        cluster.start(id).await;
    }
    a_while().await;
    for id in [1, 2] {
        let status = cluster.node(id).status();
        assert_eq!((status.phase, status.cluster_id), (Phase::Waiting, None));
        assert!(status.alerts.contains("raft-namesrv members remove"), "{}", status.alerts);
    }
    assert_eq!(cluster.node(3).leadership().borrow().leader, None);
    cluster.stop().await;
}
