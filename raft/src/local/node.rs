//! What every part of a node needs to know: who it is, who the members are, what is said to the operator.

use crate::api::{Directory, Member, NodeId, Options};
use crate::consensus::types::{Contact, StoredMembership, log_id};
use crate::local::alerts::Notices;
use crate::peer::PeerNetwork;
use crate::peer::handshake::{CAPABILITIES, Facts, Hello, Lane, Nonce, Refusal};
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use storage::LogId;
use storage::log::Log;
use storage::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The members as this node knows them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Members {
    /// The newest membership of the log, committed or not.
    pub(crate) effective: Arc<StoredMembership>,
    /// The newest that is known to be committed.
    pub(crate) committed: Arc<StoredMembership>,
}

impl Members {
    /// Where a member is reached, and its data directory.
    pub(crate) fn contact(&self, id: NodeId) -> Option<&Contact> {
        self.effective.get_node(&id).or_else(|| self.committed.get_node(&id))
    }

    /// Where the committed membership stands in the log.
    pub(crate) fn committed_at(&self) -> Option<LogId> {
        self.committed.log_id().as_ref().map(log_id)
    }
}

/// Shared by all parts of a node.
pub(crate) struct Context {
    pub(crate) options: Options,
    pub(crate) directory_id: u128,
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) network: Arc<dyn PeerNetwork>,
    pub(crate) members: ArcSwap<Members>,
    pub(crate) notices: Notices,
    /// Another node said that this one was removed.
    pub(crate) removed: AtomicBool,
    /// All tasks of the node.
    pub(crate) tasks: TaskTracker,
    /// Ends them.
    pub(crate) stop: CancellationToken,
}

impl Context {
    /// This node.
    pub(crate) fn id(&self) -> NodeId {
        self.options.node_id
    }

    /// A fresh random number.
    pub(crate) fn nonce(&self) -> Nonce {
        std::array::from_fn(|_| self.runtime.random_u64())
    }

    /// What this node says of itself.
    pub(crate) fn facts(&self) -> Facts {
        let log = self.log.state();
        Facts {
            cluster_id: self.directory.cluster_id(),
            node_id: self.id(),
            directory_id: self.directory_id,
            capabilities: CAPABILITIES,
            vote: log.vote,
            last: log.last,
            members_at: self.members.load().committed_at(),
            log_was_cut: self.directory.truncated_tail().is_some(),
        }
    }

    /// Where a node may be reached: what this node was told at its start first, then what the membership says.
    pub(crate) fn addresses(&self, id: NodeId) -> Vec<String> {
        let told = self.options.members.iter().find(|m| m.id == id).map(|m| m.address.clone());
        let known = self.members.load().contact(id).map(|c| c.address.clone());
        let mut addresses: Vec<String> = told.into_iter().chain(known).collect();
        addresses.dedup();
        addresses
    }

    /// Every other node that this one has heard of.
    pub(crate) fn others(&self) -> Vec<Member> {
        let members = self.members.load();
        let known =
            members.effective.nodes().map(|(id, node)| Member { id: *id, address: node.address.clone() });
        let mut all: Vec<Member> = self.options.members.iter().cloned().chain(known).collect();
        all.retain(|m| m.id != self.id());
        all.sort_by_key(|m| m.id);
        all.dedup_by_key(|m| m.id);
        all
    }

    /// Whether a caller is a member, with the directory that counts.
    pub(crate) fn is_member(&self, caller: &Facts) -> bool {
        self.members.load().contact(caller.node_id).is_some_and(|c| c.directory_id == caller.directory_id)
    }

    /// Whether to talk to a caller that knows the secret.
    pub(crate) fn judge(&self, hello: &Hello, me: &Facts) -> Option<Refusal> {
        let caller = &hello.facts;
        if hello.target != me.node_id || caller.node_id == me.node_id {
            return Some(Refusal::OtherNode(me.node_id));
        }
        if hello.target_directory.is_some_and(|id| id != me.directory_id) {
            self.notices.set(
                "directory",
                format!(
                    "node {} knows node {} with another data directory: this one is new, wiped or a copy. On a \
                     member run `raft-namesrv members remove {}`, then start this node with an id never used \
                     before and run `raft-namesrv members add NEW_ID=HOST:PEERPORT`",
                    caller.node_id, me.node_id, me.node_id
                ),
            );
            return Some(Refusal::OtherDirectory);
        }
        match (me.cluster_id, caller.cluster_id) {
            (Some(mine), Some(theirs)) if mine != theirs => return Some(Refusal::OtherCluster(mine)),
            (None, Some(_)) if hello.target_directory.is_none() && hello.lane != Lane::Call => {
                return Some(Refusal::NoCluster);
            }
            (None, None) if hello.lane != Lane::Call => return Some(Refusal::NoCluster),
            _ => {}
        }
        self.judge_member(hello, me)
    }

    fn judge_member(&self, hello: &Hello, me: &Facts) -> Option<Refusal> {
        let caller = &hello.facts;
        let members = self.members.load();
        match members.contact(caller.node_id) {
            Some(known) if known.directory_id != caller.directory_id => {
                self.notices.set(
                    &format!("node {}", caller.node_id),
                    wiped(caller.node_id, &known.address, "called with"),
                );
                Some(Refusal::CallerDirectory)
            }
            Some(_) => None,
            None if me.cluster_id.is_none() => None,
            // A node without a cluster may ask about it; nothing else.
            None if caller.cluster_id.is_none() => {
                (hello.lane != Lane::Call).then_some(Refusal::CallerUnknown)
            }
            // This node may be the one that is behind: only a newer membership proves a removal.
            None if members.committed_at() > caller.members_at && caller.members_at.is_some() => {
                Some(Refusal::CallerRemoved)
            }
            None => None,
        }
    }

    /// Takes note of being turned away.
    pub(crate) fn refused(&self, target: NodeId, address: &str, refusal: &Refusal) {
        let me = self.id();
        let text = match refusal {
            Refusal::OtherNode(other) => {
                format!("{address}, the address of node {target}, leads to node {other}: correct the address")
            }
            Refusal::OtherDirectory => wiped(target, address, "now has"),
            Refusal::OtherCluster(cluster) => {
                format!("node {target} at {address} belongs to another cluster, {cluster:032x}")
            }
            Refusal::CallerDirectory => format!(
                "the cluster knows node {me} with another data directory: this one is new, wiped or a copy. On a \
                 member run `raft-namesrv members remove {me}`, then start this node with an id never used before \
                 and run `raft-namesrv members add NEW_ID=HOST:PEERPORT`"
            ),
            Refusal::CallerRemoved => {
                self.removed.store(true, Ordering::Release);
                format!(
                    "node {me} was removed from the cluster. To come back it needs an empty data directory and an \
                     id never used before: `raft-namesrv members add NEW_ID=HOST:PEERPORT`"
                )
            }
            Refusal::NoCluster | Refusal::CallerUnknown => return,
        };
        self.notices.set(&format!("node {target}"), text);
    }
}

fn wiped(id: NodeId, address: &str, has: &str) -> String {
    format!(
        "node {id} at {address} {has} another data directory than the membership says (wiped, restored or a copy), \
         so it gets no Raft traffic: run `raft-namesrv members remove {id}`, start it with an id never used before, \
         then `raft-namesrv members add NEW_ID={address}`"
    )
}
