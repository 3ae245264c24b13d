//! Many commands at once: few entries, no election, equal states.

use crate::common::{Cluster, in_secs, put};
use tokio::time::Instant;

#[tokio::test]
async fn many_commands_share_entries_and_cause_no_election() {
    let cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let term = cluster.node(leader).leadership().borrow().term;
    let before = cluster.node(leader).status().last.unwrap().index;
    let begin = Instant::now();
    let (tasks, each) = (512, 20);
    let writers: Vec<_> = (0..tasks)
        .map(|w| {
            let node = cluster.node(1 + w % 3).clone();
            tokio::spawn(async move {
                for i in 0..each {
                    node.propose(put(&format!("{w}-{i}"), "v"), in_secs(30)).await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let commands = tasks * each;
    let entries = cluster.node(leader).status().last.unwrap().index - before;
    println!("{commands} commands in {entries} entries, {:?}", begin.elapsed());
    assert!(entries * 8 < commands, "{entries} entries for {commands} commands");
    assert_eq!(cluster.node(leader).leadership().borrow().term, term, "an election under load");
    let last = cluster.node(leader).read_barrier(in_secs(5)).await.unwrap();
    for id in 1..=3 {
        cluster.node(id).wait_applied(last, in_secs(5)).await.unwrap();
        assert_eq!(cluster.node(id).table().state_hash(), cluster.node(leader).table().state_hash());
    }
    cluster.stop().await;
}
