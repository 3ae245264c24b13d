//! What comes to a broker at nearly the same time, in every order, and at three nodes.

use super::{Broker, registered, removals, routes_to, until};
use crate::client::Client;
use crate::nodes::{self, Node, PATIENCE};
use std::slice;
use std::time::Duration;
use storage::command::{Cause, Change, Command, Origin, Removal, RemoveBrokers};
use storage::outcome::Outcome;
use storage::route_info::BrokerKey;
use tokio::time::Instant;

/// Not for its silence: nodes close the connections of a broker that they take for silent.
const CAUSE: Cause = Cause::Disconnected;

/// A removal of the broker as a node's table has it: decided now, whenever it is carried out.
fn decided(node: &Node, broker: &Broker) -> impl AsyncFn(&Node) -> u64 + use<> {
    let key = BrokerKey { cluster: broker.cluster.as_str().into(), address: broker.address.as_str().into() };
    let incarnation = node.running.node.table().live(&key).unwrap().incarnation;
    let removal = Removal {
        cluster: key.cluster,
        broker: broker.name.as_str().into(),
        address: key.address,
        incarnation: Some(incarnation),
        cause: CAUSE,
    };
    async move |leader: &Node| {
        let term = nodes::let_lead(leader).await;
        let removal = RemoveBrokers { brokers: vec![removal.clone()], decided_in_term: Some(term) };
        let command = Command { origin: Origin::default(), change: Change::RemoveBrokers(removal) };
        let proposed = leader.running.node.propose_in_term(term, command, Instant::now() + PATIENCE).await;
        match proposed.unwrap().outcome {
            Outcome::Removed { count } => u64::from(count),
            other => panic!("a removal ended as {other:?}"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Removal,
    Registration,
    Heartbeat,
}

/// Each through a node of its own. In the end the broker is there, at all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_orders_of_removal_registration_and_heartbeat_leave_the_broker() {
    use Step::{Heartbeat, Registration, Removal};
    let orders = [
        [Removal, Registration, Heartbeat],
        [Removal, Heartbeat, Registration],
        [Registration, Removal, Heartbeat],
        [Registration, Heartbeat, Removal],
        [Heartbeat, Removal, Registration],
        [Heartbeat, Registration, Removal],
    ];
    let nodes = nodes::cluster(3).await;
    for (at, order) in orders.into_iter().enumerate() {
        let removed_first = order.iter().position(|step| *step == Removal)
            < order.iter().position(|step| *step == Registration);
        for changed in [true, false] {
            // No leader decides so once it has heard the registration.
            if changed || removed_first {
                one_order(&nodes, &format!("b{at}{changed}"), order, changed, removed_first).await;
            }
        }
    }
    for node in nodes {
        node.stop().await;
    }
}

async fn one_order(nodes: &[Node], name: &str, order: [Step; 3], changed: bool, removed_first: bool) {
    let what = format!("{order:?}, changed: {changed}");
    let mut broker = Broker::new(name, 2);
    let _first = registered(&nodes[0], &broker).await;
    nodes::same_revision(nodes).await;
    let remove = decided(&nodes[0], &broker);
    if changed {
        broker.counter += 1;
        broker.topics.push((format!("{name}_new"), 4));
    }
    let (mut registers, mut beats) =
        (Client::connect(nodes[1].address()).await, Client::connect(nodes[2].address()).await);
    let mut count = 0;
    for step in order {
        match step {
            Step::Removal => count = remove(&nodes[0]).await,
            Step::Registration => {
                registers.done(&broker.register()).await;
                assert!(routes_to(&nodes[1], &broker).await, "told success and not there: {what}");
            }
            Step::Heartbeat => super::send_oneway(&mut beats, broker.heartbeat()).await,
        }
    }
    assert_eq!(
        count,
        u64::from(removed_first),
        "what was decided before a new registration does nothing: {what}"
    );
    nodes::same_revision(nodes).await;
    let newest = &broker.topics.last().unwrap().0;
    for node in nodes {
        super::assert_stays(slice::from_ref(node), &broker).await;
        assert!(Client::connect(node.address()).await.route(newest).await.is_ok(), "{newest}: {what}");
        let expected = if removed_first { &[CAUSE][..] } else { &[] };
        assert_eq!(removals(node, &broker), expected, "{what}");
    }
}

/// As `one_order`, with all three under way at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_a_registration_and_a_heartbeat_at_once_leave_the_broker() {
    let nodes = nodes::cluster(3).await;
    let mut broker = Broker::new("b", 2);
    let mut connections = super::registered_everywhere(&nodes, &broker).await;
    let [_, registers, beats] = &mut connections[..] else { unreachable!("three nodes") };
    let mut removed = 0;
    for round in 0..20 {
        nodes::same_revision(&nodes).await;
        let remove = decided(&nodes[0], &broker);
        broker.counter += 1;
        broker.topics.push((format!("b_new{round}"), 4));
        let (register, beat) = (broker.register(), broker.heartbeat());
        let removal = async {
            // Before the registration in some rounds, and behind it in others.
            tokio::time::sleep(Duration::from_millis(round % 5)).await;
            remove(&nodes[0]).await
        };
        let (count, ..) = tokio::join!(removal, registers.done(&register), super::send_oneway(beats, beat));
        removed += count;
        assert!(routes_to(&nodes[1], &broker).await, "round {round}: told success and not there");
        nodes::same_revision(&nodes).await;
        super::assert_stays(&nodes, &broker).await;
    }
    println!("in {removed} of 20 rounds the removal came first");
    for node in nodes {
        node.stop().await;
    }
}

/// A slave learns where its master is from the answer to its own registration, at whichever node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slave_gets_its_master_again_after_the_master_was_unknown_for_a_moment() {
    let nodes = nodes::cluster(3).await;
    let master = Broker::new("g", 2);
    let slave = Broker { id: 1, address: "slave.test:10911".into(), ..master.clone() };
    let mut slaves = Vec::new();
    for node in &nodes {
        slaves.push(Client::connect(node.address()).await);
    }
    let notices = async |slaves: &mut [Client]| {
        let mut notices = Vec::new();
        for client in slaves {
            let answer = client.done(&slave.register().with("haServerAddr", "slave:10912")).await;
            notices.push((
                answer.field("masterAddr").map(str::to_owned),
                answer.field("haServerAddr").map(str::to_owned),
            ));
        }
        notices
    };
    let known = (Some("g.test:10911".to_owned()), Some("g:10912".to_owned()));
    let unknown = vec![(None, None); 3];
    for round in 0..3 {
        assert_eq!(notices(&mut slaves).await, unknown, "round {round}");
        let connection = registered(&nodes[round], &master).await;
        assert_eq!(notices(&mut slaves).await, vec![known.clone(); 3], "round {round}");
        drop(connection);
        let gone = |node: &Node| removals(node, &master).len() > round;
        until("the master is gone", async || nodes.iter().all(gone)).await;
    }
    for node in nodes {
        node.stop().await;
    }
}
