//! The members as this node knows them.

use crate::api::NodeId;
use arc_swap::{ArcSwap, Guard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use storage::LogId;

/// What the membership holds of a node: its address, and its data directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Contact {
    /// `host:port` of its peer port.
    pub(crate) address: String,
    /// Random id of its data directory. A node with the same id and another directory is not this member.
    pub(crate) directory_id: u128,
}

/// One membership of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MemberSet {
    /// Log id of its entry; `None` before the first membership.
    pub(crate) at: Option<LogId>,
    /// Voters; in a joint configuration those of both sets.
    pub(crate) voters: BTreeSet<NodeId>,
    /// All members, learners too.
    pub(crate) nodes: BTreeMap<NodeId, Contact>,
}

/// The two memberships that count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Members {
    /// The newest membership of the log, committed or not.
    pub(crate) effective: MemberSet,
    /// The newest that is known to be committed.
    pub(crate) committed: MemberSet,
}

impl Members {
    /// A member's address and data directory.
    pub(crate) fn contact(&self, id: NodeId) -> Option<&Contact> {
        self.effective.nodes.get(&id).or_else(|| self.committed.nodes.get(&id))
    }

    /// Whether a node votes.
    pub(crate) fn is_voter(&self, id: NodeId) -> bool {
        self.effective.voters.contains(&id)
    }

    /// Ids in either membership.
    pub(crate) fn ids(&self) -> BTreeSet<NodeId> {
        self.effective.nodes.keys().chain(self.committed.nodes.keys()).copied().collect()
    }
}

/// The members as this node knows them now.
#[derive(Default)]
pub(crate) struct MemberView {
    current: ArcSwap<Members>,
    /// This node was removed from the cluster.
    removed: AtomicBool,
}

impl MemberView {
    /// The members now. Do not hold it across an await: use [`MemberView::snapshot`].
    pub(crate) fn load(&self) -> Guard<Arc<Members>> {
        self.current.load()
    }

    /// The members now, to keep.
    pub(crate) fn snapshot(&self) -> Arc<Members> {
        self.current.load_full()
    }

    /// Replaces the members.
    pub(crate) fn store(&self, members: Members) {
        self.current.store(Arc::new(members));
    }

    /// Whether this node was removed from the cluster.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    /// Notes whether this node was removed from the cluster.
    pub(crate) fn set_removed(&self, removed: bool) {
        self.removed.store(removed, Ordering::Release);
    }
}
