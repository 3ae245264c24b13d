use super::*;
use crate::answers::tests::led;
use std::time::Duration;

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
