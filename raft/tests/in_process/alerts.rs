//! Operator alerts: each is true, names the node that it is about, and ends with its cause.

use crate::common::{Cluster, Disk, eventually, free_address};

#[tokio::test]
async fn a_dead_voter_is_one_alert_of_the_leader_until_it_is_back() {
    let mut cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let dead = cluster.follower_of(leader);
    cluster.kill(dead);
    let begins = format!("voter {dead} not reached for ");
    eventually("the leader says so", || cluster.node(leader).status().alerts.starts_with(&begins)).await;
    let alerts = cluster.node(leader).status().alerts;
    assert!(alerts.ends_with(" s; no further failure is tolerated"), "{alerts}");
    let third = (1..=3).find(|id| ![leader, dead].contains(id)).unwrap();
    assert_eq!(cluster.node(third).status().alerts, "");
    cluster.start(dead).await;
    eventually("it is over", || cluster.node(leader).status().alerts.is_empty()).await;
    cluster.stop().await;
}

/// Nodes of another cluster take a healthy node for one of theirs: an address of theirs is wrong.
#[tokio::test]
async fn a_foreign_handshake_is_no_alert_about_the_node_that_is_right() {
    let cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let mut foreign = Cluster::new(3, |_| ());
    foreign.disks = (1..=3).map(|id| Disk::new(70 + id)).collect();
    for id in 1..=3 {
        foreign.start(id).await;
    }
    foreign.leader().await;
    let others: Vec<u64> = (1..=3).filter(|id| *id != leader).collect();
    let address = cluster.options[0].members[leader as usize - 1].address.clone();
    for id in 1..=3 {
        foreign.kill(id);
        foreign.options[id as usize - 1].members[leader as usize - 1].address = address.clone();
    }
    for id in &others {
        foreign.start(*id).await;
    }
    let says = format!("node {leader} at {address} belongs to another cluster");
    eventually("the foreign ones say so", || {
        others.iter().any(|id| foreign.node(*id).status().alerts.contains(&says))
    })
    .await;
    assert_eq!(cluster.node(leader).status().alerts, "");
    foreign.stop().await;
    cluster.stop().await;
}

/// An empty directory is started with the id of a member that is well.
#[tokio::test]
async fn the_alert_about_a_second_process_with_the_id_of_a_member_ends_with_that_process() {
    let cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let member = cluster.follower_of(leader);
    let mut second = Cluster::new(3, |_| ());
    second.options.clone_from(&cluster.options);
    let at = member as usize - 1;
    for options in &mut second.options {
        options.members[at].address = free_address();
    }
    second.disks[at] = Disk::new(77);
    second.start(member).await;
    let says = format!("a process calls itself node {member}, and has another data directory");
    eventually("the leader says so", || cluster.node(leader).status().alerts.contains(&says)).await;
    let stop_it = format!("If another process is node {member}, at ");
    assert!(cluster.node(leader).status().alerts.contains(&stop_it));
    assert_eq!(cluster.node(member).status().alerts, "", "it is the one that is right");
    second.kill(member);
    eventually("it is over", || cluster.node(leader).status().alerts.is_empty()).await;
    cluster.stop().await;
}
