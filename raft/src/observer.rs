//! Follows openraft's metrics, and updates the owners: leader, members, whether this node has recovered, whether
//! openraft's core lives.

use crate::api::{LeaderState, NodeId};
use crate::consensus::applied_state::AppliedStatePublisher;
use crate::consensus::raft::Raft;
use crate::consensus::types::member_set;
use crate::health::state_check::StateCheck;
use crate::health::truncated_tail;
use crate::leader::leadership::Leadership;
use crate::leader::recovery::Recovery;
use crate::local::{LocalNode, Members};
use crate::peer::authorize::{caller_key, node_key, version_key};
use crate::peer::peers::Peers;
use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver;
use std::sync::Arc;

/// Follows openraft's metrics.
pub(crate) struct RaftObserver {
    pub(crate) local: Arc<LocalNode>,
    pub(crate) raft: Raft,
    pub(crate) applied: Arc<AppliedStatePublisher>,
    pub(crate) leadership: Arc<Leadership>,
    pub(crate) recovery: Arc<Recovery>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) state_check: Arc<StateCheck>,
}

impl RaftObserver {
    /// Runs until the node stops.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut server = self.raft.server_metrics();
        let mut applied = self.applied.watch_applied();
        let mut recovery = self.recovery.subscribe();
        let mut contact_term = self.leadership.subscribe_contact_term();
        loop {
            let settled = self.observe();
            tokio::select! {
                biased;
                () = self.local.lifecycle.stop.cancelled() => return,
                changed = server.changed() => if changed.is_err() { return },
                changed = applied.changed(), if !settled => if changed.is_err() { return },
                changed = contact_term.changed() => if changed.is_err() { return },
                changed = recovery.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Waits until openraft's core dies; the process must then exit.
    pub(crate) async fn watch_core(self: Arc<Self>) {
        let lifecycle = &self.local.lifecycle;
        let mut metrics = self.raft.metrics();
        loop {
            let died = metrics.borrow_and_update().running_state.clone().err();
            if let Some(fatal) = died {
                if !lifecycle.is_stopping() {
                    lifecycle.fail(format!("the Raft core has died: {fatal}"));
                }
                return;
            }
            tokio::select! {
                biased;
                changed = metrics.changed() => if changed.is_err() {
                    if !lifecycle.is_stopping() {
                        lifecycle.fail("the Raft core has died".into());
                    }
                    return;
                },
                () = lifecycle.stop.cancelled() => return,
            }
        }
    }

    /// Takes what openraft reports now. Gives whether a newly applied entry cannot change the picture.
    fn observe(&self) -> bool {
        let server = self.raft.server_metrics().borrow_watched().clone();
        self.observe_members(Members {
            effective: member_set(&server.membership_config),
            committed: member_set(&server.committed_membership_config),
        });
        let term = server.vote.leader_id.term;
        let leads = server.state == ServerState::Leader;
        let leading = leads && self.applied.applied().is_some_and(|id| id.term == term);
        // After a restart the vote still names the leader of the time before: it counts once it has sent a message.
        let had_contact = leads || self.leadership.had_contact_in(term);
        let leader = server.current_leader.filter(|_| had_contact);
        self.leadership.update(LeaderState { term, leader, leading });
        if self.recovery.completes(leading) {
            truncated_tail::forget(&self.local);
        }
        (!leads || leading) && self.recovery.is_recovered()
    }

    pub(crate) fn observe_members(&self, members: Members) {
        // openraft's core has not begun yet, and reports no members at all.
        if members.effective.at.is_none() {
            return;
        }
        let before = self.local.members.snapshot();
        if *before == members {
            return;
        }
        tracing::debug!("members: {:?}", members.effective);
        let me = self.local.id();
        let was = before.committed.nodes.contains_key(&me);
        let is = members.contact(me).is_some();
        // A removal is effective first and committed later; between the two the node is still known.
        let gone: Vec<NodeId> = before.ids().difference(&members.ids()).copied().collect();
        self.local.members.store(members);
        for id in gone {
            self.peers.forget(id);
            self.local.alerts.clear(&node_key(id));
            self.local.alerts.clear(&caller_key(id));
            self.local.alerts.clear(&version_key(id));
            self.state_check.forget(id);
        }
        if was && !is {
            tracing::warn!("node {me} was removed from the cluster");
            self.local.members.set_removed(true);
        } else if is && !was {
            self.local.members.set_removed(false);
        }
    }
}
