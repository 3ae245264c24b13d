//! The leader compares the state of all members, now and then: equal logs must give equal tables.

use crate::api::NodeId;
use crate::consensus::runtime::blocking;
use crate::consensus::table_chunks;
use crate::leader::core::Core;
use crate::peer::connection::Limit;
use crate::peer::handshake::Lane;
use crate::peer::message::{Reply, Request};
use futures_util::future::join_all;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use storage::RouteInfo;
use tokio::time::{Instant, sleep};

/// Between two comparisons.
const CHECK_INTERVAL: Duration = Duration::from_secs(600);
/// For an answer, with hashing.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// To reach the index that is compared.
const REACH_MAX: Duration = Duration::from_secs(5);
/// Entries ahead of now at which the states are compared while entries keep coming.
const AHEAD_ENTRIES: u64 = 200;

/// Runs until the node stops.
pub(crate) async fn run(core: Arc<Core>) {
    loop {
        tokio::select! {
            biased;
            () = sleep(CHECK_INTERVAL) => {}
            () = core.context.stop.cancelled() => return,
        }
        if core.lease().is_some() {
            core.compare_states().await;
        }
    }
}

/// Under which a notice stands.
fn matter(id: NodeId) -> String {
    format!("state of {id}")
}

impl Core {
    /// Compares the states at one index: that of now, or while entries keep coming, one a little ahead.
    pub(crate) async fn compare_states(&self) {
        let Some(applied) = self.published.applied() else { return };
        for ahead in [0, AHEAD_ENTRIES] {
            let index = applied.index + ahead;
            let others = self.context.others();
            let asked = others.iter().map(|other| async move {
                let limit = Limit::Deadline(Instant::now() + ANSWER_MAX);
                let request = Request::StateHash { index };
                match self.peers.peer(other.id).call(Lane::Call, &request, limit).await {
                    Ok(Reply::StateHash(hash)) => (other.id, hash),
                    _ => (other.id, None),
                }
            });
            let (mine, theirs) = tokio::join!(self.hash_at(index), join_all(asked));
            let Some(mine) = mine else { continue };
            for (id, hash) in theirs {
                match hash {
                    Some(hash) if hash != mine => self.diverged(id, index).await,
                    _ => {}
                }
            }
            return;
        }
    }

    async fn diverged(&self, id: NodeId, index: u64) {
        self.note_divergence(id, index);
        let limit = Limit::Deadline(Instant::now() + ANSWER_MAX);
        // It is an alarm here whether or not the other node hears of it.
        let _ = self.peers.peer(id).call(Lane::Call, &Request::Diverged { index }, limit).await;
    }

    /// An alarm: the tables of another node differ from this node's.
    pub(crate) fn note_divergence(&self, id: NodeId, index: u64) {
        tracing::error!("the tables of node {id} and node {} differ at index {index}", self.id());
        self.context.notices.set(
            &matter(id),
            format!(
                "the tables of node {id} differ from this node's at index {index}: keep both data directories, \
                 and replace the node that disagrees with the majority"
            ),
        );
        self.diverged.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    /// A node that is no member any more is no matter any more.
    pub(crate) fn forget_divergence(&self, id: NodeId) {
        self.diverged.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        self.context.notices.clear(&matter(id));
    }

    /// Answers with the hash of the state at exactly an index.
    pub(crate) async fn state_hash_at(&self, index: u64) -> Reply {
        Reply::StateHash(self.hash_at(index).await)
    }

    async fn hash_at(&self, index: u64) -> Option<u128> {
        self.published.want(index);
        // If it is not reached, there is nothing to compare this time.
        self.wait_applied(index, Instant::now() + REACH_MAX).await.ok()?;
        let table: Arc<RouteInfo> = self.published.take_wanted(index)?;
        blocking(move || Ok(table_chunks::state_hash(&table))).await.ok()
    }
}
