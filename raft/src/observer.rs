//! Follows Raft: who leads, who the members are, whether this node has recovered, whether the core lives.

use crate::api::{Leadership, NodeId, Standing};
use crate::health::truncated_tail as cut_tail;
use crate::leader::core::Core;
use crate::local::node::Members;
use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Runs until the node stops.
pub(crate) async fn run(core: Arc<Core>) {
    let mut server = core.raft.server_metrics();
    let mut applied = core.published.watch_applied();
    let mut recovery = core.recovery.subscribe();
    let mut heard_term = core.heard_term.subscribe();
    loop {
        let settled = core.observe();
        tokio::select! {
            biased;
            () = core.context.stop.cancelled() => return,
            changed = server.changed() => if changed.is_err() { return },
            changed = applied.changed(), if !settled => if changed.is_err() { return },
            changed = heard_term.changed() => if changed.is_err() { return },
            changed = recovery.changed() => if changed.is_err() { return },
        }
    }
}

/// Waits until Raft's core dies, and says why.
pub(crate) async fn watch_core(core: Arc<Core>) {
    let mut metrics = core.raft.metrics();
    loop {
        let died = metrics.borrow_and_update().running_state.clone().err();
        if let Some(fatal) = died {
            if !core.stopping.load(Ordering::Acquire) {
                core.die(format!("the Raft core has died: {fatal}"));
            }
            return;
        }
        tokio::select! {
            biased;
            changed = metrics.changed() => if changed.is_err() {
                if !core.stopping.load(Ordering::Acquire) {
                    core.die("the Raft core has died".into());
                }
                return;
            },
            () = core.context.stop.cancelled() => return,
        }
    }
}

impl Core {
    /// The process must exit.
    pub(crate) fn die(&self, why: String) {
        tracing::error!("{why}");
        self.death.send_if_modified(|death| {
            let first = death.is_none();
            if first {
                *death = Some(why);
            }
            first
        });
    }

    /// Takes over what Raft says now. Gives whether only Raft itself can change the picture.
    fn observe(&self) -> bool {
        let server = self.raft.server_metrics().borrow_watched().clone();
        self.observe_members(Members {
            effective: server.membership_config,
            committed: server.committed_membership_config,
        });
        let term = server.vote.leader_id.term;
        let leads = server.state == ServerState::Leader;
        let applied = self.published.applied();
        let leading = leads && applied.is_some_and(|id| id.term == term);
        // After a restart the vote still names the leader of then: only one that speaks is one.
        let speaks = leads || *self.heard_term.borrow() == term;
        let now = Leadership { term, leader: server.current_leader.filter(|_| speaks), leading };
        let mut led = false;
        let changed = self.leadership.send_if_modified(|leadership| {
            let changed = *leadership != now;
            led = leadership.leading;
            *leadership = now;
            changed
        });
        // Once for the cluster where people look; at the others for those who search.
        match changed {
            true if leading => tracing::info!("term {term}: this node leads"),
            true if led => tracing::info!("term {term}: this node leads no more; leader {:?}", now.leader),
            true => tracing::debug!("term {term}, leader {:?}", now.leader),
            false => {}
        }
        if !self.recovered.load(Ordering::Acquire) {
            let target = *self.recovery.borrow();
            let reached = target.is_some_and(|index| applied.is_some_and(|id| id.index >= index));
            // A new cluster's first commands are its settings, and to answer before they are in force is to answer wrong.
            let born = !self.published.is_fresh();
            if (leading || reached) && born {
                self.published.end_replay();
                self.recovered.store(true, Ordering::Release);
                cut_tail::settle(self);
                tracing::info!("recovered: applied what was committed, up to {applied:?}");
            }
        }
        (!leads || leading) && self.recovered.load(Ordering::Acquire)
    }

    fn observe_members(&self, members: Members) {
        // The core has not begun yet: it knows of nobody, this node included.
        if members.effective.log_id().is_none() {
            return;
        }
        let before = self.context.members.load();
        if before.effective == members.effective && before.committed == members.committed {
            return;
        }
        tracing::debug!("members: {}", members.effective);
        let me = self.id();
        let was = before.committed.get_node(&me).is_some();
        let is = members.committed.get_node(&me).is_some() || members.effective.get_node(&me).is_some();
        // A removal is effective first and committed later; between the two the node is still known.
        let known = before.effective.nodes().chain(before.committed.nodes()).map(|(id, _)| *id);
        let gone: BTreeSet<NodeId> = known.filter(|id| members.contact(*id).is_none()).collect();
        self.context.members.store(Arc::new(members));
        for id in gone {
            self.peers.forget(id);
            self.context.notices.clear(&format!("node {id}"));
            self.forget_divergence(id);
        }
        if was && !is {
            tracing::warn!("node {me} was removed from the cluster");
            self.context.removed.store(true, Ordering::Release);
        } else if is && !was {
            self.context.removed.store(false, Ordering::Release);
        }
    }

    /// Whether this node may answer look-ups.
    pub(crate) fn standing(&self) -> Standing {
        if self.stopping.load(Ordering::Acquire) {
            Standing::Stopping
        } else if self.context.removed.load(Ordering::Acquire) {
            Standing::Removed
        } else if !self.is_initialized() {
            Standing::Waiting
        } else if self.recovered.load(Ordering::Acquire) {
            Standing::Recovered
        } else {
            Standing::Recovering
        }
    }
}

#[cfg(test)]
mod tests;
