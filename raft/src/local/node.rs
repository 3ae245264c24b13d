//! This node's identity, and what it stands on.

use super::{Alerts, DiskState, Lifecycle, MemberView};
use crate::api::{Directory, Member, NodeId, Options};
use std::sync::Arc;
use storage::log::Log;
use storage::runtime::Runtime;

/// This node's identity, and what it stands on. Every room has a handle.
pub(crate) struct LocalNode {
    pub(crate) options: Options,
    pub(crate) directory_id: u128,
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) members: MemberView,
    pub(crate) alerts: Alerts,
    pub(crate) disk: DiskState,
    pub(crate) lifecycle: Lifecycle,
}

impl LocalNode {
    /// This node's id.
    pub(crate) fn id(&self) -> NodeId {
        self.options.node_id
    }

    /// Addresses of a node: the one from this node's own options first, then the one in the membership.
    pub(crate) fn addresses(&self, id: NodeId) -> Vec<String> {
        let configured = self.options.members.iter().find(|m| m.id == id).map(|m| m.address.clone());
        let replicated = self.members.load().contact(id).map(|contact| contact.address.clone());
        let mut addresses: Vec<String> = configured.into_iter().chain(replicated).collect();
        addresses.dedup();
        addresses
    }

    /// Every other node that this one knows, from its options or from the membership.
    pub(crate) fn other_nodes(&self) -> Vec<Member> {
        let members = self.members.load();
        let replicated = members.effective.nodes.iter();
        let replicated = replicated.map(|(id, contact)| Member { id: *id, address: contact.address.clone() });
        let mut all: Vec<Member> = self.options.members.iter().cloned().chain(replicated).collect();
        all.retain(|m| m.id != self.id());
        all.sort_by_key(|m| m.id);
        all.dedup_by_key(|m| m.id);
        all
    }
}
