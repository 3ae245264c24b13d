//! Strangers at the peer port.

use crate::common::{Cluster, eventually, in_secs, put};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Far more than the port has places for.
const STRANGERS: usize = 200;
/// A restarted node needs a part of a second.
const BACK_MAX: Duration = Duration::from_secs(3);

/// As long as a handshake may take.
const RENEWED_AFTER: Duration = Duration::from_secs(2);

/// Connects and says nothing, again and again.
async fn silent_peer(address: String) {
    loop {
        let stream = TcpStream::connect(&address).await;
        // The node is down for a moment.
        let renewed_after = if stream.is_ok() { RENEWED_AFTER } else { Duration::from_millis(20) };
        sleep(renewed_after).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_strangers_keep_no_restarted_node_out() {
    let mut cluster = Cluster::started(3, |_| ()).await;
    let addresses: Vec<_> = cluster.options[0].members.iter().map(|member| member.address.clone()).collect();
    let mut silent = JoinSet::new();
    for address in addresses.iter().flat_map(|address| [address].repeat(STRANGERS)) {
        silent.spawn(silent_peer(address.clone()));
    }
    for round in 0..3 {
        let leader = cluster.leader().await;
        cluster.kill(leader);
        let other = cluster.leader().await;
        let done = cluster.node(other).propose(put(&format!("k{round}"), "v"), in_secs(5)).await.unwrap();
        cluster.start(leader).await;
        let begun = Instant::now();
        let node = cluster.node(leader);
        eventually("it has caught up", || {
            node.table().revision().is_some_and(|revision| revision.index >= done.position.index)
        })
        .await;
        assert!(begun.elapsed() < BACK_MAX, "back after {:?} in round {round}", begun.elapsed());
    }
    silent.shutdown().await;
    cluster.stop().await;
}
