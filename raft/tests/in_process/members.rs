//! Members come and go.

use crate::common::{Cluster, eventually, in_secs, put};
use raft::{Member, MemberChange, Node, Phase, ProposeError};
use std::time::Duration;

#[tokio::test]
async fn a_learner_follows_then_votes_then_goes() {
    let mut cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let asked_at = cluster.follower_of(leader);
    let new = cluster.add_non_member();
    let address = cluster.start(new).await;
    eventually("it waits", || cluster.node(new).status().alerts.contains("members add")).await;

    let join = MemberChange::AddLearner(Member { id: new, address });
    cluster.node(asked_at).change_members(join.clone(), in_secs(10)).await.unwrap();
    eventually("it has recovered", || cluster.node(new).status().phase == Phase::Recovered).await;
    assert_eq!(cluster.node(new).status().cluster_id, cluster.node(leader).status().cluster_id);
    let done = cluster.node(new).propose(put("k", "by the learner"), in_secs(5)).await.unwrap();
    assert!(cluster.node(new).table().revision().unwrap().index >= done.position.index);
    cluster.node(asked_at).change_members(join, in_secs(5)).await.unwrap();
    let moved = MemberChange::AddLearner(Member { id: new, address: "127.0.0.1:1".into() });
    let moved = cluster.node(asked_at).change_members(moved, in_secs(5)).await;
    assert!(matches!(moved, Err(ProposeError::Refused(_))), "{moved:?}");

    eventually("it has caught up", || {
        let members = cluster.node(leader).status().members;
        members.iter().any(|m| m.member.id == new && m.matched == cluster.node(leader).status().last)
    })
    .await;
    cluster.node(asked_at).change_members(MemberChange::Promote(new), in_secs(10)).await.unwrap();
    let votes = |id| {
        let members = cluster.node(leader).status().members;
        members.iter().any(|m| m.member.id == id && m.voter)
    };
    assert!(votes(new));

    let myself = cluster.node(asked_at).change_members(MemberChange::Remove(leader), in_secs(5)).await;
    assert!(matches!(myself, Err(ProposeError::Refused(_))), "{myself:?}");
    cluster.node(asked_at).change_members(MemberChange::Remove(new), in_secs(10)).await.unwrap();
    assert_eq!(cluster.node(leader).status().members.len(), 3);
    eventually("it knows that it was removed", || cluster.node(new).status().phase == Phase::Removed).await;
    let term = cluster.node(leader).leadership().borrow().term;
    cluster.kill(new);
    cluster.start(new).await;
    eventually("it learns it again", || cluster.node(new).status().phase == Phase::Removed).await;
    assert_eq!(cluster.node(leader).leadership().borrow().term, term);
    cluster.stop().await;
}

#[tokio::test]
async fn a_dead_member_is_replaced() {
    let mut cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    for i in 0..50 {
        cluster.node(leader).propose(put(&format!("k{i}"), "v"), in_secs(5)).await.unwrap();
    }
    let dead = cluster.follower_of(leader);
    cluster.kill(dead);
    let id = cluster.add_non_member();
    let address = cluster.start(id).await;
    let replace = MemberChange::Replace { old: dead, new: Member { id, address } };
    cluster.node(leader).change_members(replace, in_secs(20)).await.unwrap();
    let members = cluster.node(leader).status().members;
    let voters: Vec<u64> = members.iter().filter(|m| m.voter).map(|m| m.member.id).collect();
    assert_eq!(voters.len(), 3);
    assert!(voters.contains(&id) && !voters.contains(&dead), "{voters:?}");
    let last = cluster.node(leader).read_barrier(in_secs(5)).await.unwrap();
    cluster.node(id).wait_applied(last, in_secs(5)).await.unwrap();
    assert_eq!(cluster.node(id).table().state_hash(), cluster.node(leader).table().state_hash());
    cluster.stop().await;
}

/// A client leaves when its patience is over: the change is carried out nevertheless, and can be
/// asked for again.
#[tokio::test]
async fn a_change_goes_on_when_its_caller_leaves_and_can_be_repeated() {
    let mut cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let mut old = cluster.follower_of(leader);
    for leaves_after_ms in [0, 1, 2, 4, 8, 16] {
        let id = cluster.add_non_member();
        let address = cluster.start(id).await;
        let replace = MemberChange::Replace { old, new: Member { id, address } };
        let (node, change) = (cluster.node(leader).clone(), replace.clone());
        let caller = tokio::spawn(async move { node.change_members(change, in_secs(20)).await });
        tokio::time::sleep(Duration::from_millis(leaves_after_ms)).await;
        caller.abort();
        cluster.node(leader).change_members(replace, in_secs(20)).await.unwrap();
        let is_settled = |node: &Node| {
            let voters = node.status().members.into_iter().filter(|m| m.voter).map(|m| m.member.id);
            let voters: Vec<u64> = voters.collect();
            voters.len() == 3 && voters.contains(&id) && !voters.contains(&old)
        };
        eventually("all know the new voters", || {
            cluster.running().into_iter().filter(|id| *id != old).all(|id| is_settled(cluster.node(id)))
        })
        .await;
        cluster.kill(old);
        old = id;
    }
    cluster.stop().await;
}

/// A flag that stays set would refuse all writes for as long as the term lasts.
#[tokio::test]
async fn a_transfer_whose_caller_leaves_does_not_stop_writes() {
    let cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let lagging = cluster.follower_of(leader);
    let log = &cluster.disks[lagging as usize - 1].log;
    log.hang(true);
    cluster.node(leader).propose(put("before", "v"), in_secs(5)).await.unwrap();
    let node = cluster.node(leader).clone();
    let caller = tokio::spawn(async move { node.transfer(Some(lagging), in_secs(20)).await });
    eventually("the transfer has begun", || cluster.node(leader).is_leader_with_lease().is_none()).await;
    caller.abort();
    cluster.node(leader).propose(put("after", "v"), in_secs(5)).await.unwrap();
    log.hang(false);
    cluster.stop().await;
}

/// A leader that dies between the two steps of a change leaves a joint configuration, which no later entry ends.
#[tokio::test]
async fn a_new_leader_ends_a_joint_configuration() {
    let mut cluster = Cluster::started(3, |_| ()).await;
    let old = cluster.leader().await;
    let rest: Vec<u64> = (1..=3).filter(|id| *id != old).collect();
    let new = cluster.add_non_member();
    let address = cluster.start(new).await;
    let join = MemberChange::AddLearner(Member { id: new, address });
    cluster.node(old).change_members(join, in_secs(10)).await.unwrap();
    eventually("it has recovered", || cluster.node(new).status().phase == Phase::Recovered).await;
    // The first step reaches the others, and cannot be committed.
    let logs: Vec<_> = rest.iter().map(|id| cluster.disks[*id as usize - 1].log.clone()).collect();
    logs.iter().for_each(|log| log.hang(true));
    let node = cluster.node(old).clone();
    let promotion =
        tokio::spawn(async move { node.change_members(MemberChange::Promote(new), in_secs(20)).await });
    let votes = |node: &Node| node.status().members.iter().any(|m| m.member.id == new && m.voter);
    eventually("the first step has arrived", || rest.iter().all(|id| votes(cluster.node(*id)))).await;
    cluster.kill(old);
    promotion.abort();
    logs.iter().for_each(|log| log.hang(false));
    let leader = cluster.leader_among(&[rest[0], rest[1], new]).await;
    let alert = || cluster.node(leader).status().alerts;
    eventually("it is found", || alert().contains("half done")).await;
    eventually("it is ended", || !alert().contains("half done")).await;
    cluster.stop().await;
}

#[tokio::test]
async fn a_change_that_would_lose_the_majority_is_refused() {
    let mut cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let dead = cluster.follower_of(leader);
    let alive = (1..=3).find(|id| *id != leader && *id != dead).unwrap();
    cluster.kill(dead);
    eventually("the leader knows", || {
        cluster.node(leader).status().members.iter().any(|m| m.member.id == dead && !m.reachable)
    })
    .await;
    let lost = cluster.node(leader).change_members(MemberChange::Remove(alive), in_secs(5)).await;
    assert!(matches!(lost, Err(ProposeError::Refused(_))), "{lost:?}");
    cluster.node(leader).propose(put("k", "v"), in_secs(5)).await.unwrap();
    cluster.stop().await;
}
