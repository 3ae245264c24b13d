//! The handshake's rules: whether this node talks to a peer that knows the secret, and what it tells its operator of a
//! refusal.

use super::handshake::{ChannelKind, Hello, PROTOCOL, Refusal};
use super::node_info::NodeInfo;
use crate::api::NodeId;
use crate::local::LocalNode;

/// Whether this node, which states `me`, talks to the caller. `None`: yes.
pub(crate) fn authorize(local: &LocalNode, hello: &Hello, me: &NodeInfo) -> Option<Refusal> {
    let caller = &hello.info;
    if hello.protocol != PROTOCOL {
        return Some(Refusal::OtherVersion(PROTOCOL));
    }
    if hello.target != me.node_id || caller.node_id == me.node_id {
        return Some(Refusal::OtherNode(me.node_id));
    }
    if let (Some(mine), Some(theirs)) = (me.cluster_id, caller.cluster_id)
        && mine != theirs
    {
        let text = format!("node {} of another cluster, {theirs:032x}, is refused", caller.node_id);
        local.alerts.log("other cluster", text);
        return Some(Refusal::OtherCluster(mine));
    }
    if hello.target_directory.is_some_and(|id| id != me.directory_id) {
        own_directory(local, &format!("node {}", caller.node_id));
        return Some(Refusal::OtherDirectory);
    }
    match (me.cluster_id, caller.cluster_id) {
        (None, Some(_)) if hello.target_directory.is_none() && hello.channel != ChannelKind::Call => {
            return Some(Refusal::NoCluster);
        }
        (None, None) if hello.channel != ChannelKind::Call => return Some(Refusal::NoCluster),
        _ => {}
    }
    authorize_member(local, hello, me)
}

fn authorize_member(local: &LocalNode, hello: &Hello, me: &NodeInfo) -> Option<Refusal> {
    let caller = &hello.info;
    let members = local.members.load();
    match members.contact(caller.node_id) {
        Some(known) if known.directory_id != caller.directory_id => {
            local.alerts.set_while_repeated(
                &caller_key(caller.node_id),
                other_caller(caller.node_id, &known.address),
            );
            Some(Refusal::CallerDirectory)
        }
        Some(_) => None,
        None if me.cluster_id.is_none() => None,
        // A node without a cluster may ask about it, and nothing else.
        None if caller.cluster_id.is_none() => {
            (hello.channel != ChannelKind::Call).then_some(Refusal::CallerUnknown)
        }
        // This node may be the one that is behind: only a newer membership proves a removal.
        None if members.committed.at > caller.members_at && caller.members_at.is_some() => {
            Some(Refusal::CallerRemoved)
        }
        None => None,
    }
}

/// Whether a caller is a member, with the data directory that the membership names.
pub(crate) fn is_member(local: &LocalNode, caller: &NodeInfo) -> bool {
    let members = local.members.load();
    members.contact(caller.node_id).is_some_and(|known| known.directory_id == caller.directory_id)
}

/// Tells the operator that a peer refused this node.
pub(crate) fn refused_by_peer(local: &LocalNode, target: NodeId, address: &str, refusal: &Refusal) {
    let me = local.id();
    let text = match refusal {
        Refusal::OtherNode(other) => {
            format!("{address}, the address of node {target}, leads to node {other}: correct the address")
        }
        Refusal::OtherDirectory => wiped(target, address, "now has"),
        Refusal::OtherCluster(cluster) => {
            format!("node {target} at {address} belongs to another cluster, {cluster:032x}")
        }
        Refusal::CallerDirectory => return own_directory(local, &format!("node {target} at {address}")),
        Refusal::CallerRemoved => {
            local.members.set_removed(true);
            format!(
                "node {me} was removed from the cluster. To come back it needs an empty data directory and an \
                 id never used before: `raft-namesrv members add NEW_ID=HOST:PEERPORT`"
            )
        }
        Refusal::OtherVersion(theirs) => {
            local.alerts.set(&version_key(target), other_version(me, target, address, *theirs));
            return;
        }
        Refusal::NoCluster | Refusal::CallerUnknown => return,
    };
    local.alerts.set_while_repeated(&node_key(target), text);
}

/// Logs that this node refused a caller of another version of the peer protocol.
pub(crate) fn log_other_version(local: &LocalNode, hello: &Hello, from: &str) {
    let text = other_version(local.id(), hello.info.node_id, from, hello.protocol);
    local.alerts.log("callers of other versions", text);
}

fn other_version(me: NodeId, peer: NodeId, address: &str, theirs: u16) -> String {
    let old = if theirs < PROTOCOL { peer } else { me };
    format!(
        "node {peer} at {address} speaks version {theirs} of the peer protocol, and node {me}, this one, version \
         {PROTOCOL}: they cannot talk to each other. Run a newer release of raft-namesrv on node {old}"
    )
}

/// Logs that a peer truncated the tail of its log at its start, if it says so.
pub(crate) fn log_truncated_tail(local: &LocalNode, peer: &NodeInfo) {
    if !peer.tail_truncated {
        return;
    }
    let id = peer.node_id;
    let text = format!(
        "node {id} truncated the unfinished tail of its log at its start and is catching up; if it was killed or lost \
         power, nothing acknowledged is lost unless its disk lies about syncs"
    );
    local.alerts.log(&format!("truncated tail of node {id}"), text);
}

/// Alert key: this node's data directory is not the one that the membership names.
pub(crate) const OWN_DIRECTORY: &str = "directory";

/// Alert key of what is wrong with a peer that this node connects to.
pub(crate) fn node_key(id: NodeId) -> String {
    format!("node {id}")
}

/// Alert key of a process that connects to this node and is not the member that it says it is.
pub(crate) fn caller_key(id: NodeId) -> String {
    format!("caller {id}")
}

/// A peer knows this node with another data directory. If this node's own membership names the directory that it has,
/// the peer is the one that is wrong, or far behind: no operator shall remove this node for it.
fn own_directory(local: &LocalNode, peer: &str) {
    let me = local.id();
    if local.members.load().contact(me).is_some_and(|known| known.directory_id == local.directory_id) {
        let text =
            format!("{peer} knows this node, {me}, with another data directory than the membership says");
        return local.alerts.log(OWN_DIRECTORY, text);
    }
    local.alerts.set_while_repeated(
        OWN_DIRECTORY,
        format!(
            "{peer} knows node {me}, which is this one, with another data directory: this one is new, wiped or a copy. \
             On a member run `raft-namesrv members remove {me}`, then start this node with an id never used before and \
             run `raft-namesrv members add NEW_ID=HOST:PEERPORT`"
        ),
    );
}

/// The member itself may be well: another process may have its id.
fn other_caller(id: NodeId, address: &str) -> String {
    format!(
        "a process calls itself node {id}, and has another data directory than the membership says, so it gets no Raft \
         traffic. If another process is node {id}, at {address}, stop this one; if not, node {id} was wiped, restored or \
         copied: run `raft-namesrv members remove {id}`, start it with an id never used before, then \
         `raft-namesrv members add NEW_ID={address}`"
    )
}

/// Alert key: a peer speaks another version of the peer protocol. It ends with the next attempt to connect that fails
/// in another way, or succeeds.
pub(crate) fn version_key(id: NodeId) -> String {
    format!("version of node {id}")
}

fn wiped(id: NodeId, address: &str, has: &str) -> String {
    format!(
        "node {id} at {address} {has} another data directory than the membership says (wiped, restored or a copy), \
         so it gets no Raft traffic: run `raft-namesrv members remove {id}`, start it with an id never used before, \
         then `raft-namesrv members add NEW_ID={address}`"
    )
}
