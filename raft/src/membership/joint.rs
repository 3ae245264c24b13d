//! A change of voters has two steps: a joint configuration, then the new one. When the leader dies or its time is over
//! between them, no change follows that would end the joint configuration, and a majority of both sets is needed for ever.

use crate::consensus::raft::Raft;
use crate::leader::leadership::Leadership;
use crate::local::LocalNode;
use openraft::ChangeMembers;
use openraft::async_runtime::watch::WatchReceiver;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Between two looks. A change that takes longer between its steps was left there.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The key of the alert.
const ALERT: &str = "joint configuration";
/// For the second step.
const STEP_MAX: Duration = Duration::from_secs(5);

/// Ends joint configurations while this node leads, and alerts while there is one.
pub(crate) struct JointEnd {
    local: Arc<LocalNode>,
    raft: Raft,
    leadership: Arc<Leadership>,
}

impl JointEnd {
    /// For this node.
    pub(crate) fn new(local: Arc<LocalNode>, raft: Raft, leadership: Arc<Leadership>) -> Self {
        Self { local, raft, leadership }
    }

    /// Looks until the node stops.
    pub(crate) async fn run(self) {
        let stop = self.local.lifecycle.stop.clone();
        stop.run_until_cancelled(self.follow()).await;
    }

    async fn follow(&self) {
        let mut seen = None;
        loop {
            sleep(LOOK_EVERY).await;
            let joint = self.joint();
            match joint.filter(|_| joint == seen) {
                Some(index) => self.left_at(index).await,
                None => self.local.alerts.clear(ALERT),
            }
            seen = joint;
        }
    }

    /// The joint configuration of this entry was left.
    async fn left_at(&self, index: u64) {
        let text = format!(
            "a change of voters (entry {index}) is half done: until the leader ends it, a majority of the old voters and one \
             of the new ones are needed. Start the voters that are down"
        );
        self.local.alerts.set(ALERT, text);
        if self.leadership.lease().is_some() {
            self.end().await;
        }
    }

    /// The index of the joint configuration, if the newest one is joint.
    fn joint(&self) -> Option<u64> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let newest = &metrics.membership_config;
        let is_joint = newest.membership().get_joint_config().len() > 1;
        newest.log_id().as_ref().filter(|_| is_joint).map(|id| id.index)
    }

    async fn end(&self) {
        // A change that adds nothing to the newer of the two sets leads out of both.
        let nothing = ChangeMembers::AddVoterIds(BTreeSet::new());
        match timeout(STEP_MAX, self.raft.change_membership(nothing, false)).await {
            Ok(Ok(_)) => tracing::info!("ended the joint configuration that a change of members had left"),
            Ok(Err(error)) => tracing::warn!(%error, "a joint configuration remains; this node tries again"),
            Err(_) => {
                tracing::warn!("a joint configuration remains: no majority answers; this node tries again")
            }
        }
    }
}
