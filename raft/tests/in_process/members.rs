//! Members come and go.

use crate::common::{Cluster, eventually, in_secs, put};
use raft::{Member, MemberChange, Phase, ProposeError};

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
    let twice = cluster.node(asked_at).change_members(join, in_secs(5)).await;
    assert!(matches!(twice, Err(ProposeError::Refused(_))), "{twice:?}");

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
