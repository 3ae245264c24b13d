//! What is committed can be applied: a command that no node could read never gets into the log.

use crate::common::{Cluster, in_secs, put};
use raft::ProposeError;
use storage::command::{DataVersion, Origin, QueueConfig, Registration, StaticTopicInfo, TopicConfig};
use storage::limits::{COMMAND_BYTES_MAX, KV_NAMESPACE_BYTES_MAX, KV_VALUE_BYTES_MAX};
use storage::{Change, Command};

/// A registration with so many static topics of 250 queues each. It takes two bytes per queue, and eight in memory.
fn registration(static_topics: usize) -> Command {
    let mut registration = Registration::of_master("c".into(), "b".into(), "a:1".into());
    registration.data_version = DataVersion { counter: 1, ..DataVersion::default() };
    let queues = QueueConfig { read: 1, write: 1, perm: 6, sys_flag: 0 };
    registration.topics = ["t1", "t2"].map(|topic| TopicConfig { topic: topic.into(), queues }).into();
    let info = StaticTopicInfo {
        topic: None,
        broker: Some("b".into()),
        total_queues: 250,
        epoch: 1,
        scope: None,
        dirty: false,
        current_ids: Some((-125..125).map(|id| (id, id)).collect()),
    };
    registration.static_infos =
        (0..static_topics).map(|number| (format!("s{number:05}").into(), info.clone())).collect();
    Command { origin: Origin::default(), change: Change::RegisterBroker(Box::new(registration)) }
}

#[tokio::test]
async fn a_command_that_grows_fourfold_in_memory_is_applied_and_applied_again_after_a_restart() {
    let mut cluster = Cluster::started(1, |_| ()).await;
    cluster.node(1).propose(registration(34_000), in_secs(60)).await.unwrap();
    assert!(cluster.node(1).table().static_topic("s33999").is_some());
    let hash = cluster.node(1).table().state_hash();
    cluster.kill(1);
    cluster.start(1).await;
    cluster.leader().await;
    cluster.node(1).read_barrier(in_secs(60)).await.unwrap();
    assert_eq!(cluster.node(1).table().state_hash().total, hash.total);
    cluster.stop().await;
}

#[tokio::test]
async fn a_command_over_the_limit_is_refused_by_every_node_and_the_next_one_is_carried_out() {
    let cluster = Cluster::started(3, |_| ()).await;
    let leader = cluster.leader().await;
    let last = cluster.node(leader).status().last;
    // The second one has no place in a message between nodes either.
    for bytes in [COMMAND_BYTES_MAX, 2 * COMMAND_BYTES_MAX] {
        for id in [leader, cluster.follower_of(leader)] {
            let command = put("k", &"v".repeat(bytes));
            let refused = cluster.node(id).propose(command, in_secs(5)).await.unwrap_err();
            let reason = format!("at most {COMMAND_BYTES_MAX} are taken");
            assert!(
                matches!(&refused, ProposeError::Refused(why) if why.ends_with(&reason)),
                "{bytes} bytes at node {id}: {refused}"
            );
        }
    }
    assert_eq!(cluster.node(leader).status().last, last, "nothing was appended");
    cluster.node(leader).propose(put("k", "v"), in_secs(5)).await.unwrap();
    cluster.stop().await;
}

/// From all nodes at the same time: what is in flight counts.
#[tokio::test]
async fn a_kv_namespace_never_grows_over_its_limit() {
    let cluster = Cluster::started(3, |_| ()).await;
    let value = "v".repeat(KV_VALUE_BYTES_MAX);
    let puts = (0..12).map(|number| {
        let (node, command) = (cluster.node(1 + number % 3), put(&format!("k{number}"), &value));
        node.propose(command, in_secs(60))
    });
    let outcomes = futures_util::future::join_all(puts).await;
    let reason = format!("at most {KV_NAMESPACE_BYTES_MAX} are allowed");
    let (done, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert!(
        refused
            .iter()
            .all(|outcome| matches!(outcome, Err(ProposeError::Refused(why)) if why.ends_with(&reason))),
        "{refused:?}"
    );
    assert_eq!(done.len(), KV_NAMESPACE_BYTES_MAX / KV_VALUE_BYTES_MAX - 1);
    let leader = cluster.leader().await;
    let node = cluster.node(leader);
    assert!(node.table().kv_namespace_bytes("test") <= KV_NAMESPACE_BYTES_MAX);
    // A smaller value takes the place of a larger one, and another namespace has room of its own.
    let (kept, _) = node
        .table()
        .kv_namespace("test")
        .unwrap()
        .iter()
        .next()
        .map(|(k, v)| (k.clone(), v.clone()))
        .unwrap();
    node.propose(put(&kept, "small"), in_secs(5)).await.unwrap();
    node.propose(put("one more", &value[..1_000]), in_secs(5)).await.unwrap();
    cluster.stop().await;
}
