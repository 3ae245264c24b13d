use super::*;
use crate::consensus::types::{Contact, Membership, StoredMembership, raft_log_id};
use crate::rpc_handlers::raft::tests::led;
use std::collections::BTreeMap;
use std::time::Duration;
use storage::LogId;

/// Raft's core begins beside the task that looks at it, and until then says that there are no members at all.
#[tokio::test]
async fn nobody_is_removed_before_raft_has_begun() {
    let (node, _log) = led().await;
    while node.status().members.len() < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    node.core.observe_members(Members::default());
    assert_ne!(node.status().standing, Standing::Removed);
    assert_eq!(node.status().members.len(), 3);
    node.shutdown().await;
}

/// The advice of the alarm is to replace the node that disagrees: once it is gone, so is the alarm.
#[tokio::test]
async fn the_alarm_about_a_node_ends_with_its_removal() {
    let (node, _log) = led().await;
    let core = &node.core;
    while node.status().members.len() < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    core.note_divergence(3, 4);
    assert_eq!(node.status().diverged, [3]);
    let contact = |id: u64| (id, Contact { address: "nowhere".into(), directory_id: u128::from(id) });
    let without = Membership::new(vec![BTreeSet::from([1, 2])], BTreeMap::from([1, 2].map(contact))).unwrap();
    let without = Arc::new(StoredMembership::new(Some(raft_log_id(LogId { term: 5, index: 5 })), without));
    core.observe_members(Members { effective: Arc::clone(&without), committed: without });
    let status = node.status();
    assert!(status.diverged.is_empty(), "{:?}", status.diverged);
    assert!(!status.notice.contains("node 3"), "{}", status.notice);
    node.shutdown().await;
}
