//! Which brokers stay and which go, at three nodes over real connections.

mod disconnects;
mod expiry;
mod min_broker_id_notices;
mod quorum;
mod races;

use super::client::{Broker, Client, bytes_of};
use super::nodes::{Node, until};
use raft_namesrv::wire::RemotingCommand;
use std::future::Future;
use std::time::Duration;
use storage::command::Cause;
use storage::outcome::{Event, RemovedBy};
use tokio::io::AsyncWriteExt;

/// A broker with two topics and a timeout of its own.
fn broker(name: &str, timeout_ms: i64) -> Broker {
    Broker { timeout_ms: Some(timeout_ms), ..Broker::new(name, 2) }
}

/// A connection to a node, over which a broker has registered.
async fn registered(node: &Node, broker: &Broker) -> Client {
    let mut client = Client::connect(node.address()).await;
    client.done(&broker.register()).await;
    client
}

/// As `registered`, one to each node; every node then routes to the broker.
async fn registered_everywhere(nodes: &[Node], broker: &Broker) -> Vec<Client> {
    let mut clients = Vec::new();
    for node in nodes {
        clients.push(registered(node, broker).await);
    }
    clients
}

/// Sends a request that has no answer, and waits until it was taken in.
async fn send_oneway(client: &mut Client, command: RemotingCommand) {
    client.send(&command.oneway()).await;
    // Answered behind it: the requests of a connection are begun in order.
    assert_eq!(client.route("no such topic").await, Err(17));
}

/// Whether a client of this node is sent to the broker.
async fn routes_to(node: &Node, broker: &Broker) -> bool {
    match Client::connect(node.address()).await.route(&broker.topics[0].0).await {
        Ok(route) => route["brokerDatas"].to_string().contains(&format!("\"{}\"", broker.address)),
        Err(17) => false,
        Err(code) => panic!("code {code}"),
    }
}

pub(crate) async fn assert_stays(nodes: &[Node], broker: &Broker) {
    for node in nodes {
        let (id, stays) = (node.config.node_id, routes_to(node, broker).await);
        assert!(stays, "{} is gone from node {id}: {:?}", broker.name, removals(node, broker));
    }
}

/// Waits until no node routes to the broker.
async fn gone(nodes: &[Node], broker: &Broker) {
    for node in nodes {
        let what = format!("{} gone from node {}", broker.name, node.config.node_id);
        until(&what, async || !routes_to(node, broker).await).await;
    }
}

/// A broker comes to all nodes and goes: what ended before has been decided on when this returns.
pub(crate) async fn let_another_pass(nodes: &[Node], name: &str) {
    let other = Broker::new(name, 2);
    drop(registered_everywhere(nodes, &other).await);
    gone(nodes, &other).await;
}

/// Why a broker was removed, each time, as a node's audit has it.
fn removals(node: &Node, broker: &Broker) -> Vec<Cause> {
    let table = node.running.node.table();
    let causes = table.audit().filter_map(|record| match &record.event {
        Event::BrokerRemoved { address, cause: RemovedBy::Removal(cause), .. }
            if **address == *broker.address =>
        {
            Some(*cause)
        }
        _ => None,
    });
    causes.collect()
}

/// That it was removed once, for its silence, and how long that was.
fn assert_expired(node: &Node, broker: &Broker) -> u64 {
    let removals = removals(node, broker);
    let [Cause::Expired { idle_ms }] = removals[..] else {
        panic!("{} was removed otherwise than for its silence: {removals:?}", broker.name)
    };
    let timeout_ms = u64::try_from(broker.timeout_ms.unwrap()).unwrap();
    assert!(idle_ms >= timeout_ms, "{}: {idle_ms} of {timeout_ms} ms", broker.name);
    idle_ms
}

/// Does something while brokers send heartbeats, each over a connection of its own.
async fn while_beating<T>(beats: &mut [(&mut Client, RemotingCommand)], work: impl Future<Output = T>) -> T {
    let beating = async {
        loop {
            for (client, beat) in &mut *beats {
                // Closed since it was taken for silent: the test sees that the broker is gone, and says why.
                let _ = client.stream.write_all(&bytes_of(beat)).await;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::select! {
        done = work => done,
        () = beating => unreachable!("it beats for ever"),
    }
}
