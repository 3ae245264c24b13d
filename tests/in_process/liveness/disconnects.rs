//! Connections that end: by the peer, by a node that stops, before and after another one is there.

use super::{
    assert_expired, assert_stays, broker, gone, let_another_pass, registered, registered_everywhere,
    removals, routes_to, send_oneway, until,
};
use crate::client::{Broker, Client};
use crate::nodes::{self, Node, PATIENCE};
use raft::{MemberChange, Phase};
use std::time::Duration;
use storage::command::Cause;
use tokio::time::Instant;

/// What brokers send beside registrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beat {
    Heartbeat,
    QueryDataVersion,
}

async fn beat(client: &mut Client, broker: &Broker, with: Beat) {
    match with {
        Beat::Heartbeat => send_oneway(client, broker.heartbeat()).await,
        Beat::QueryDataVersion => drop(client.done(&broker.query_data_version()).await),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_closes_everything_is_gone_everywhere_at_once() {
    let nodes = nodes::cluster(3).await;
    leaves_at_once(&nodes).await;
    for node in nodes {
        node.stop().await;
    }
}

/// The leader probes members only, and waits for their answers only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_nodes_that_still_run_hold_up_no_leave() {
    let mut nodes = nodes::cluster(5).await;
    let hears_all = |node: &Node| {
        let others = node.running.liveness.status().nodes;
        others.len() == 4 && others.iter().all(|other| other.reachable)
    };
    until("the leader has the reports of all", async || nodes.iter().any(hears_all)).await;
    let removed = [nodes.pop().unwrap(), nodes.pop().unwrap()];
    nodes::let_lead(&nodes[0]).await;
    for node in &removed {
        let change = MemberChange::Remove(node.config.node_id);
        nodes[0].running.node.change_members(change, Instant::now() + PATIENCE).await.unwrap();
    }
    for node in &removed {
        until("it knows", async || node.running.node.status().phase == Phase::Removed).await;
    }
    leaves_at_once(&nodes).await;
    for node in nodes.into_iter().chain(removed) {
        node.stop().await;
    }
}

/// A broker closes its connections to all nodes, several times.
async fn leaves_at_once(nodes: &[Node]) {
    const ROUNDS: usize = 5;
    /// More often than not, since a machine may be busy. A leader that waits for somebody in vain waits a second.
    const AT_ONCE: Duration = Duration::from_millis(500);
    let broker = Broker::new("b", 2);
    let mut took = Vec::new();
    for _ in 0..ROUNDS {
        let connections = registered_everywhere(nodes, &broker).await;
        nodes::same_revision(nodes).await;
        assert_stays(nodes, &broker).await;
        let closed = Instant::now();
        drop(connections);
        gone(nodes, &broker).await;
        took.push(closed.elapsed());
    }
    took.sort_unstable();
    assert!(took[ROUNDS / 2] < AT_ONCE, "{took:?}");
    for node in nodes {
        assert_eq!(removals(node, &broker), [Cause::Disconnected; ROUNDS]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_anywhere_keeps_a_broker_until_that_closes_too() {
    let nodes = nodes::cluster(3).await;
    let leader = nodes::leader(&nodes).await;
    let broker = Broker::new("b", 2);
    for kept in [leader, (leader + 1) % 3] {
        let mut connections = registered_everywhere(&nodes, &broker).await;
        let last = connections.remove(kept);
        drop(connections);
        let_another_pass(&nodes, "other").await;
        assert_stays(&nodes, &broker).await;
        drop(last);
        gone(&nodes, &broker).await;
    }
    for node in nodes {
        node.stop().await;
    }
}

/// Several brokers over one connection: Java loses only one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_brokers_of_a_connection_go_with_it_but_for_one_that_has_another() {
    let nodes = nodes::cluster(3).await;
    let leader = nodes::leader(&nodes).await;
    for (at, other) in [(leader, (leader + 1) % 3), ((leader + 1) % 3, (leader + 2) % 3)] {
        let both = [Broker::new("one", 2), Broker::new("two", 2)];
        for kept in [false, true] {
            let mut connection = registered(&nodes[at], &both[0]).await;
            connection.done(&both[1].register()).await;
            let second = if kept { Some(registered(&nodes[other], &both[1]).await) } else { None };
            drop(connection);
            gone(&nodes, &both[0]).await;
            if kept {
                let_another_pass(&nodes, "other").await;
                assert_stays(&nodes, &both[1]).await;
            }
            drop(second);
            gone(&nodes, &both[1]).await;
        }
        for broker in &both {
            let causes = removals(&nodes[other], broker);
            assert!(
                causes.len() >= 2 && causes.iter().all(|cause| *cause == Cause::Disconnected),
                "{causes:?}"
            );
        }
    }
    for node in nodes {
        node.stop().await;
    }
}

/// A connection over which it never registered counts too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_with_heartbeats_only_keeps_a_broker_until_it_closes() {
    let nodes = nodes::cluster(3).await;
    let leader = nodes::leader(&nodes).await;
    let (one, two) = ((leader + 1) % 3, (leader + 2) % 3);
    let places = [(leader, one), (one, leader), (one, two), (one, one), (leader, leader)];
    for (at, (registers, beats)) in places.into_iter().enumerate() {
        for with in [Beat::Heartbeat, Beat::QueryDataVersion] {
            let broker = Broker::new(&format!("b{at}{with:?}"), 2);
            let strong = registered(&nodes[registers], &broker).await;
            nodes::same_revision(&nodes).await;
            let mut weak = Client::connect(nodes[beats].address()).await;
            beat(&mut weak, &broker, with).await;
            drop(strong);
            let_another_pass(&nodes, &format!("other{at}{with:?}")).await;
            assert_stays(&nodes, &broker).await;
            drop(weak);
            gone(&nodes, &broker).await;
            assert_eq!(removals(&nodes[0], &broker), [Cause::Disconnected]);
        }
    }
    for node in nodes {
        node.stop().await;
    }
}

/// Its connections were closed by us.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_of_a_node_that_stops_live_until_their_timeout() {
    let mut nodes = nodes::cluster(3).await;
    let at = (nodes::leader(&nodes).await + 1) % 3;
    let (brief, long) = (broker("brief", 3_000), Broker::new("long", 2));
    let mut connections = [registered(&nodes[at], &brief).await, registered(&nodes[at], &long).await];
    nodes.remove(at).stop().await;
    for connection in &mut connections {
        assert!(connection.is_closed().await);
    }
    let_another_pass(&nodes, "other").await;
    assert_stays(&nodes, &long).await;
    gone(&nodes, &brief).await;
    assert_stays(&nodes, &long).await;
    for node in &nodes {
        assert_expired(node, &brief);
    }
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_of_a_follower_that_dies_live_until_their_timeout() {
    let nodes = nodes::cluster(3).await;
    let at = (nodes::leader(&nodes).await + 1) % 3;
    without_the_node_that_knows_them(nodes, at, async |follower, _| drop(follower.kill().await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_of_a_leader_that_dies_live_until_their_timeout() {
    let nodes = nodes::cluster(3).await;
    let at = nodes::leader(&nodes).await;
    without_the_node_that_knows_them(nodes, at, async |leader, others| {
        let (_dead, leaderless) = nodes::kill_leader(leader, others).await;
        nodes::was_elected(leaderless).await;
    })
    .await;
}

async fn without_the_node_that_knows_them(
    mut nodes: Vec<Node>,
    at: usize,
    die: impl AsyncFnOnce(Node, &[Node]),
) {
    let dies = nodes.remove(at);
    let (brief, long) = (broker("brief", 3_000), Broker::new("long", 2));
    let mut connections = [registered(&dies, &brief).await, registered(&dies, &long).await];
    die(dies, &nodes).await;
    for connection in &mut connections {
        assert!(connection.is_closed().await);
    }
    gone(&nodes, &brief).await;
    let_another_pass(&nodes, "other").await;
    assert_stays(&nodes, &long).await;
    for node in &nodes {
        assert_expired(node, &brief);
    }
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_close_of_an_old_connection_does_not_remove_who_registered_on_a_new_one() {
    let nodes = nodes::cluster(3).await;
    let leader = nodes::leader(&nodes).await;
    let places = [(leader, leader), (leader, (leader + 1) % 3), ((leader + 1) % 3, (leader + 2) % 3)];
    for (at, (old, new)) in places.into_iter().enumerate() {
        let broker = Broker::new(&format!("b{at}"), 2);
        let old = registered(&nodes[old], &broker).await;
        let new = registered(&nodes[new], &broker).await;
        drop(old);
        let_another_pass(&nodes, &format!("other{at}")).await;
        assert_stays(&nodes, &broker).await;
        assert!(removals(&nodes[leader], &broker).is_empty());
        drop(new);
        gone(&nodes, &broker).await;
    }
    for node in nodes {
        node.stop().await;
    }
}

/// The broker closes, and registers again before the leader can have decided: it may leave for a moment at most, and the
/// last answer that it got holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_reconnects_at_once_is_there_after_its_answer() {
    let nodes = nodes::cluster(3).await;
    let broker = Broker::new("b", 2);
    let mut last = registered_everywhere(&nodes, &broker).await;
    for round in 0..20 {
        drop(last);
        let mut next = Vec::new();
        // First at another node each time.
        for step in 0..3 {
            let node = &nodes[(round + step) % 3];
            next.push(registered(node, &broker).await);
            assert!(routes_to(node, &broker).await, "round {round}: told success and not there");
        }
        last = next;
    }
    let_another_pass(&nodes, "other").await;
    assert_stays(&nodes, &broker).await;
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_old_master_does_late_leaves_its_successor_alone() {
    let nodes = nodes::cluster(3).await;
    let old = Broker { address: "old.test:10911".into(), state_version: 1, ..Broker::new("b", 2) };
    let new = Broker { address: "new.test:10911".into(), state_version: 2, ..Broker::new("b", 2) };
    let old_connections = registered_everywhere(&nodes, &old).await;
    let new_connections = registered_everywhere(&nodes, &new).await;
    for node in &nodes {
        Client::connect(node.address()).await.done(&old.unregister()).await;
    }
    nodes::same_revision(&nodes).await;
    assert_stays(&nodes, &new).await;
    drop(old_connections);
    let_another_pass(&nodes, "other").await;
    assert_stays(&nodes, &new).await;
    drop(new_connections);
    gone(&nodes, &new).await;
    for node in nodes {
        node.stop().await;
    }
}
