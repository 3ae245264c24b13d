//! The leader compares the state of all members now and then: equal logs must give equal tables.

use crate::api::NodeId;
use crate::consensus::applied_state::AppliedStatePublisher;
use crate::leader::leadership::Leadership;
use crate::local::{LocalNode, blocking};
use crate::peer::connection::Limit;
use crate::peer::handshake::ChannelKind;
use crate::peer::message::{Reply, Request};
use crate::peer::peers::Peers;
use futures_util::future::join_all;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Between two comparisons.
const CHECK_INTERVAL: Duration = Duration::from_secs(600);
/// For a reply, with hashing.
const REPLY_MAX: Duration = Duration::from_secs(20);
/// To reach the index of the comparison.
const REACH_MAX: Duration = Duration::from_secs(5);
/// While entries keep coming, the index of the comparison is so far ahead of the leader's.
const AHEAD_ENTRIES: u64 = 200;

/// Compares the states of the members.
pub(crate) struct StateCheck {
    local: Arc<LocalNode>,
    applied: Arc<AppliedStatePublisher>,
    leadership: Arc<Leadership>,
    peers: Arc<Peers>,
    /// Nodes whose state differed from this node's.
    diverged: Mutex<BTreeSet<NodeId>>,
}

/// Alert key.
fn alert(id: NodeId) -> String {
    format!("state of {id}")
}

impl StateCheck {
    /// No node has diverged.
    pub(crate) fn new(
        local: Arc<LocalNode>,
        applied: Arc<AppliedStatePublisher>,
        leadership: Arc<Leadership>,
        peers: Arc<Peers>,
    ) -> Self {
        Self { local, applied, leadership, peers, diverged: Mutex::default() }
    }

    /// Runs until the node stops.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            tokio::select! {
                biased;
                () = sleep(CHECK_INTERVAL) => {}
                () = self.local.lifecycle.stop.cancelled() => return,
            }
            if self.leadership.lease().is_some() {
                self.compare().await;
            }
        }
    }

    /// Compares the states at one index: the one of now, or while entries keep coming, one a little ahead.
    async fn compare(&self) {
        let Some(applied) = self.applied.applied() else { return };
        for ahead in [0, AHEAD_ENTRIES] {
            let index = applied.index + ahead;
            let others = self.local.other_nodes();
            let replies = others.iter().map(|other| async move {
                let limit = Limit::Deadline(Instant::now() + REPLY_MAX);
                let request = Request::StateHash { index };
                match self.peers.peer(other.id).call(ChannelKind::Call, &request, limit).await {
                    Ok(Reply::StateHash(hash)) => (other.id, hash),
                    _ => (other.id, None),
                }
            });
            let (mine, theirs) = tokio::join!(self.hash_at(index), join_all(replies));
            let Some(mine) = mine else { continue };
            for (id, hash) in theirs {
                let Some(hash) = hash else { continue };
                if hash == mine {
                    self.forget(id);
                    continue;
                }
                self.record_divergence(id, index);
                let limit = Limit::Deadline(Instant::now() + REPLY_MAX);
                let request = Request::Diverged { index };
                // This node's alarm does not depend on the other's.
                let _ = self.peers.peer(id).call(ChannelKind::Call, &request, limit).await;
            }
            return;
        }
    }

    /// An alarm: the tables of another node differ from this node's.
    pub(crate) fn record_divergence(&self, id: NodeId, index: u64) {
        tracing::error!("the tables of node {id} and node {} differ at index {index}", self.local.id());
        self.local.alerts.set(
            &alert(id),
            format!(
                "the tables of node {id} differ from this node's at index {index}: keep both data directories, \
                 and replace the node that disagrees with the majority"
            ),
        );
        self.lock().insert(id);
    }

    /// Ends the alarm about a node that agrees again, or is no member any more.
    pub(crate) fn forget(&self, id: NodeId) {
        self.lock().remove(&id);
        self.local.alerts.clear(&alert(id));
    }

    /// Nodes whose state differed from this node's.
    pub(crate) fn diverged(&self) -> Vec<NodeId> {
        self.lock().iter().copied().collect()
    }

    /// The hash of the state at exactly an index; `None` when this node was not at that index.
    pub(crate) async fn hash_at(&self, index: u64) -> Option<u128> {
        self.applied.capture_at(index);
        let stop = &self.local.lifecycle.stop;
        // If the index is not reached, there is nothing to compare this time.
        self.applied.wait_for(index, Instant::now() + REACH_MAX, stop).await.ok()?;
        let table = self.applied.take_captured(index)?;
        blocking(move || Ok(table.state_hash().total)).await.ok()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<NodeId>> {
        self.diverged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
