//! Registrations that change nothing: no entry is written, and none succeeds unless the leader confirms it.

use super::{
    assert_expired, assert_stays, broker, gone, registered, registered_everywhere, removals, until,
    while_beating,
};
use crate::client::{Broker, Client, request};
use crate::nodes::{self, Node};
use raft_namesrv::wire::codes::request as code;
use std::time::Duration;
use storage::command::Cause;
use storage::route_info::BrokerKey;
use tokio::time::Instant;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_rounds_that_change_nothing_write_nothing_and_succeed_everywhere() {
    let nodes = nodes::cluster(3).await;
    let brokers: Vec<_> = (0..3).map(|n| Broker::new(&format!("b{n}"), 2)).collect();
    let mut connections = Vec::new();
    for broker in &brokers {
        connections.push(registered_everywhere(&nodes, broker).await);
    }
    let term = || nodes.iter().map(|node| node.running.node.status().leadership.term).max().unwrap();
    let (revision, term_before) = (nodes::same_revision(&nodes).await, term());
    for _ in 0..20 {
        for (broker, connections) in brokers.iter().zip(&mut connections) {
            for connection in connections {
                connection.done(&broker.register()).await;
                connection.done(&broker.query_data_version()).await;
                connection.send(&broker.heartbeat().oneway()).await;
            }
        }
    }
    let written = nodes::same_revision(&nodes).await - revision;
    assert!(written <= term() - term_before, "{written} entries, and each new leader writes one");
    for node in nodes {
        node.stop().await;
    }
}

/// The next leader gives its word instead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_that_changes_nothing_succeeds_also_while_the_leader_changes() {
    for dies in [false, true] {
        let mut nodes = nodes::cluster(3).await;
        let broker = Broker::new("b", 2);
        let mut connections = registered_everywhere(&nodes, &broker).await;
        nodes::same_revision(&nodes).await;
        let at = nodes::leader(&nodes).await;
        let former = nodes.remove(at);
        let _silent = connections.remove(at);
        let change = async {
            if dies {
                let (_dead, leaderless) = nodes::kill_leader(former, &nodes).await;
                nodes::was_elected(leaderless).await;
            } else {
                former.stop().await;
            }
        };
        let register = async {
            for _ in 0..100 {
                for connection in &mut connections {
                    connection.done(&broker.register()).await;
                    connection.done(&broker.query_data_version()).await;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        futures_util::future::join(change, register).await;
        for node in &nodes {
            let counted = &node.running.service.registrations;
            assert!(counted.known_digest.get() >= 100, "leader dies: {dies}");
            assert_eq!((counted.wholes.get(), counted.no_leader.get()), (0, 0), "leader dies: {dies}");
            assert!(removals(node, &broker).is_empty());
        }
        for node in nodes {
            node.stop().await;
        }
    }
}

/// Tries until it is taken: the deadline is short here.
async fn registers_in_time(client: &mut Client, broker: &Broker) {
    until("registered", async || client.ask(&broker.register()).await.code == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_nothing_succeeds_and_look_ups_go_on() {
    let mut nodes = nodes::cluster(3).await;
    let kept = Broker::new("b", 2);
    let mut connections = Vec::new();
    for node in &nodes {
        connections.push(Client::connect(node.address()).await);
        registers_in_time(connections.last_mut().unwrap(), &kept).await;
    }
    nodes::same_revision(&nodes).await;
    let survivor = nodes.remove(0);
    let stopped = futures_util::future::join_all(nodes.into_iter().map(Node::stop)).await;
    until("no leader", async || survivor.running.node.is_leader_with_lease().is_none()).await;

    let connection = &mut connections[0];
    let register = kept.register();
    connection.send(&register).await;
    for _ in 0..10 {
        // Answered at once, before what waits: `ask` takes no other's answer.
        let looked_up = request(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", "b_t0")]);
        assert_eq!(connection.ask(&looked_up).await.code, 0);
    }
    let answer = connection.next().await.unwrap();
    assert_eq!((answer.opaque, answer.code), (register.opaque, 1), "{:?}", answer.remark);
    let answer = connection.ask(&kept.unregister()).await;
    assert_eq!(answer.code, 1, "{:?}", answer.remark);
    let answer = connection.ask(&Broker::new("new", 2).register()).await;
    assert_eq!(answer.code, 1, "{:?}", answer.remark);
    // Brokers register under a lock that their senders need: no request waits once there has been no leader for a while.
    for request in [Broker::new("new", 2).register(), kept.unregister(), kept.register()] {
        let begun = Instant::now();
        let answer = connection.ask(&request).await;
        assert_eq!(answer.code, 1, "{:?}", answer.remark);
        assert!(
            begun.elapsed() < Duration::from_secs(1),
            "code {} after {:?}",
            request.code,
            begun.elapsed()
        );
    }

    let mut nodes = vec![survivor];
    nodes.extend(futures_util::future::join_all(stopped.into_iter().map(|node| node.start())).await);
    for node in &nodes {
        node.ready().await;
    }
    nodes::leader(&nodes).await;
    let mut client = Client::connect(nodes[1].address()).await;
    registers_in_time(&mut client, &kept).await;
    assert!(client.route("b_t0").await.is_ok());
    for node in nodes {
        node.stop().await;
    }
}

/// A broker that goes on with heartbeats stays; a silent one has a full timeout from the return of the quorum on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_no_broker_expires_and_after_it_each_has_its_time() {
    let mut nodes = nodes::cluster(3).await;
    let (living, silent) = (broker("living", 3_000), broker("silent", 3_000));
    let mut connections = registered_everywhere(&nodes, &living).await;
    let _silent = registered_everywhere(&nodes, &silent).await;
    nodes::same_revision(&nodes).await;
    let survivor = nodes.remove(0);
    let mut beats = [(&mut connections[0], living.heartbeat().oneway())];
    let work = async {
        let stopped = futures_util::future::join_all(nodes.into_iter().map(Node::stop)).await;
        let key = BrokerKey { cluster: "C".into(), address: silent.address.clone().into() };
        let since_leader = || survivor.running.node.status().since_leader_contact.unwrap_or_default();
        until("no leader for longer than its timeout", async || since_leader() > Duration::from_secs(4))
            .await;
        // It has been so for some seconds before the quorum was lost at most, and a second after that.
        let idle_ms = survivor.running.liveness.idle_ms(&key).unwrap();
        assert!(idle_ms < 3_000, "idle for {idle_ms} ms: time without a quorum counts");
        assert_stays(std::slice::from_ref(&survivor), &silent).await;
        let begun = Instant::now();
        let mut nodes = futures_util::future::join_all(stopped.into_iter().map(|node| node.start())).await;
        nodes.push(survivor);
        gone(&nodes, &silent).await;
        assert!(begun.elapsed() >= Duration::from_secs(3), "{:?} after the start", begun.elapsed());
        nodes
    };
    let nodes = while_beating(&mut beats, work).await;
    for node in &nodes {
        assert_expired(node, &silent);
        assert!(removals(node, &living).is_empty());
    }
    assert_stays(&nodes, &living).await;
    for node in nodes {
        node.stop().await;
    }
}

/// The leader decides to remove it and cannot. Once the quorum is back it goes by that entry, or by another that is
/// decided then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_when_the_quorum_has_just_gone_is_gone_once_it_is_back() {
    /// From the return of the quorum on.
    const GONE_WITHIN: Duration = Duration::from_secs(8);
    /// After the first: a node counts as reachable for a second, and the leader waits so long for its word.
    const SECOND_DIES_AFTER: Duration = Duration::from_millis(750);
    let nodes = nodes::cluster(3).await;
    let at = nodes::leader(&nodes).await;
    let leaves = Broker::new("leaves", 2);
    let living: Vec<_> = (0..3).map(|n| Broker::new(&format!("living{n}"), 2)).collect();
    let mut connections = Vec::new();
    for broker in &living {
        connections.push(registered_everywhere(&nodes, broker).await);
    }
    let last = registered(&nodes[at], &leaves).await;
    nodes::same_revision(&nodes).await;
    let mut followers = nodes;
    let leader = followers.remove(at);
    let (second, first) = (followers.pop().unwrap(), followers.pop().unwrap());
    let silent_for = |id| {
        let peers = leader.running.liveness.status().nodes;
        peers.iter().find(|peer| peer.node == id).unwrap().since_report.unwrap()
    };
    let (first_id, second_id) = (first.config.node_id, second.config.node_id);
    let mut dead = vec![first.kill().await];
    drop(last);
    until("almost unreachable", async || silent_for(first_id) >= SECOND_DIES_AFTER).await;
    dead.push(second.kill().await);
    let failed = || leader.running.liveness.totals().counters.removals_retried;
    // On a busy machine it may have decided before or not at all.
    let too_late = || silent_for(second_id) > Duration::from_secs(6);
    until("the removal failed", async || failed() > 0 || too_late()).await;
    println!("removals that failed: {}", failed());

    let mut nodes = futures_util::future::join_all(dead.into_iter().map(|node| node.start())).await;
    nodes.push(leader);
    for node in &nodes {
        node.ready().await;
    }
    nodes::leader(&nodes).await;
    let back = Instant::now();
    for broker in &living {
        connections.push(registered_everywhere(&nodes, broker).await);
    }
    gone(&nodes, &leaves).await;
    assert!(back.elapsed() < GONE_WITHIN, "{:?}", back.elapsed());
    for node in &nodes {
        assert_eq!(removals(node, &leaves), [Cause::Disconnected]);
    }
    for broker in &living {
        assert_stays(&nodes, broker).await;
        assert!(nodes.iter().all(|node| removals(node, broker).is_empty()), "{}", broker.name);
    }
    for node in nodes {
        node.stop().await;
    }
}
