//! How empty nodes form a cluster, and what an empty node waits for.
//!
//! A cluster is bootstrapped once: when every node of `--members` replies that it is empty and has the same list and the
//! same initial commands, the one with the lowest id draws the cluster's id and writes the first membership, with the data
//! directory of each. An empty node that learns of an existing cluster writes nothing: a member must add it.

use crate::api::{Member, NodeId};
use crate::consensus::raft::Raft;
use crate::leader::leadership::Leadership;
use crate::leader::recovery::Recovery;
use crate::local::{Contact, LocalNode, blocking};
use crate::peer::connection::Limit;
use crate::peer::handshake::ChannelKind;
use crate::peer::message::{BootstrapInfo, Reply, Request};
use crate::peer::peers::Peers;
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Between two rounds of requests.
const ROUND_PAUSE: Duration = Duration::from_millis(200);
/// For one reply.
const REPLY_MAX: Duration = Duration::from_secs(1);
/// Between two looks at whether this node has contact with a leader.
const CONTACT_PAUSE: Duration = Duration::from_secs(2);
/// An obstacle becomes an alert when it has lasted this long: nodes start one after the other, and for a moment those
/// that are members already meet those that do not know it yet.
const ALERT_AFTER: Duration = Duration::from_secs(2);
/// Alert key.
const ALERT: &str = "bootstrap";

/// Bootstraps the cluster.
pub(crate) struct Bootstrap {
    local: Arc<LocalNode>,
    raft: Raft,
    leadership: Arc<Leadership>,
    recovery: Arc<Recovery>,
    peers: Arc<Peers>,
    /// Hash of the initial commands of a new cluster.
    fingerprint: u128,
}

/// Another node's reply.
struct Answer {
    member: Member,
    directory_id: u128,
    info: BootstrapInfo,
}

impl Bootstrap {
    /// The bootstrap at this node.
    pub(crate) fn new(
        local: Arc<LocalNode>,
        raft: Raft,
        leadership: Arc<Leadership>,
        recovery: Arc<Recovery>,
        peers: Arc<Peers>,
        fingerprint: u128,
    ) -> Self {
        Self { local, raft, leadership, recovery, peers, fingerprint }
    }

    /// Waits for the bootstrap, or carries it out; then, until the node stops, looks for a lost cluster.
    pub(crate) async fn run(self: Arc<Self>) {
        let stop = self.local.lifecycle.stop.clone();
        tokio::select! {
            biased;
            () = self.wait_until_initialized() => {}
            () = stop.cancelled() => return,
        }
        self.local.alerts.clear(ALERT);
        tokio::select! {
            biased;
            () = self.ask_when_lost() => {}
            () = stop.cancelled() => {}
        }
    }

    /// What this node tells others before the bootstrap.
    pub(crate) fn info(&self) -> BootstrapInfo {
        let listed = self.local.options.members.iter();
        let mut members: Vec<(u64, String)> = listed.map(|m| (m.id, m.address.clone())).collect();
        members.sort();
        BootstrapInfo {
            cluster_id: self.local.directory.cluster_id(),
            initialized: self.recovery.is_initialized(),
            members,
            fingerprint: self.fingerprint,
        }
    }

    async fn wait_until_initialized(&self) {
        let me = self.local.id();
        let is_listed = self.local.options.members.iter().any(|m| m.id == me);
        let mut obstacle_since = None;
        while !self.recovery.is_initialized() {
            if !is_listed {
                self.local.alerts.set(
                    ALERT,
                    format!(
                        "node {me} waits for a cluster: run `raft-namesrv members add {me}=HOST:PEERPORT` on a member"
                    ),
                );
            }
            match self.round().await {
                Ok(None) => {
                    obstacle_since = None;
                    if is_listed {
                        self.local.alerts.clear(ALERT);
                    }
                }
                Ok(Some(members)) => {
                    obstacle_since = None;
                    self.initialize(members).await;
                }
                Err(why) => {
                    let since = *obstacle_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= ALERT_AFTER {
                        self.local.alerts.set(ALERT, why);
                    }
                }
            }
            sleep(ROUND_PAUSE).await;
        }
    }

    /// One round of requests. Gives the first membership if this node is the one to write it.
    async fn round(&self) -> Result<Option<BTreeMap<NodeId, Contact>>, String> {
        let mine = self.info();
        let me = self.local.id();
        // Also where the replies do not matter: the handshakes raise alerts about what is wrong.
        let answers = self.ask_all().await;
        if !mine.members.iter().any(|(id, _)| *id == me) {
            return Ok(None);
        }
        let mut missing = Vec::new();
        let mut members = BTreeMap::new();
        for (member, answer) in answers {
            match answer {
                Ok(answer) => {
                    let directory_id = check_agreement(&mine, &answer, me)?;
                    members.insert(member.id, Contact { address: member.address, directory_id });
                }
                Err(reason) => missing.push(format!("node {} ({}): {reason}", member.id, member.address)),
            }
        }
        if !missing.is_empty() {
            return Err(format!(
                "the cluster is not bootstrapped yet: it needs all of --members. Missing: {}",
                missing.join(", ")
            ));
        }
        if mine.members.iter().any(|(id, _)| *id < me) {
            return Ok(None);
        }
        let address = mine.members.iter().find(|(id, _)| *id == me).map(|(_, address)| address.clone());
        let directory_id = self.local.directory_id;
        members.insert(me, Contact { address: address.unwrap_or_default(), directory_id });
        Ok(Some(members))
    }

    async fn ask_all(&self) -> Vec<(Member, Result<Answer, String>)> {
        let me = self.local.id();
        let listed = self.local.options.members.iter().filter(|m| m.id != me).cloned();
        join_all(listed.map(|member| async move {
            let answer = self.ask(&member).await;
            (member, answer)
        }))
        .await
    }

    async fn ask(&self, member: &Member) -> Result<Answer, String> {
        let peer = self.peers.peer(member.id);
        let limit = Limit::Deadline(Instant::now() + REPLY_MAX);
        match peer.call(ChannelKind::Call, &Request::BootstrapInfo, limit).await {
            Ok(Reply::BootstrapInfo(info)) => match peer.info() {
                Some(node) => Ok(Answer { member: member.clone(), directory_id: node.directory_id, info }),
                None => Err("the connection broke".into()),
            },
            Ok(_) => Err("a reply to something else".into()),
            Err(e) => Err(e.to_string()),
        }
    }

    async fn initialize(&self, members: BTreeMap<NodeId, Contact>) {
        let cluster_id = match self.cluster_id().await {
            Ok(cluster_id) => cluster_id,
            Err(e) => {
                self.local.alerts.set(ALERT, format!("the cluster's id cannot be saved: {e}"));
                return;
            }
        };
        let ids: Vec<NodeId> = members.keys().copied().collect();
        match self.raft.initialize(members).await {
            Ok(()) => tracing::info!("cluster {cluster_id:032x} is bootstrapped, members {ids:?}"),
            Err(e) => {
                self.local.alerts.set(ALERT, format!("the first membership cannot be written: {e}"));
            }
        }
    }

    /// The cluster's id: drawn now and saved, or saved by an attempt before.
    async fn cluster_id(&self) -> std::io::Result<u128> {
        if let Some(saved) = self.local.directory.cluster_id() {
            return Ok(saved);
        }
        let random = || u128::from(self.local.runtime.random_u64());
        let drawn = (random() << 64) | random();
        let directory = Arc::clone(&self.local.directory);
        blocking(move || directory.save_cluster_id(drawn)).await?;
        Ok(drawn)
    }

    /// A node without a leader for a while connects to the others: the handshakes raise alerts about what is wrong.
    async fn ask_when_lost(&self) {
        loop {
            sleep(CONTACT_PAUSE).await;
            if self.leadership.since_contact().is_some_and(|since| since < CONTACT_PAUSE) {
                continue;
            }
            for other in self.local.other_nodes() {
                let limit = Limit::Deadline(Instant::now() + REPLY_MAX);
                // Only the handshake matters.
                let _ =
                    self.peers.peer(other.id).call(ChannelKind::Call, &Request::BootstrapInfo, limit).await;
            }
        }
    }
}

/// Whether another node agrees with this one on the new cluster. Gives its data directory.
fn check_agreement(mine: &BootstrapInfo, answer: &Answer, me: NodeId) -> Result<u128, String> {
    let Answer { member, directory_id, info } = answer;
    let other = member.id;
    if info.initialized || (info.cluster_id.is_some() && info.cluster_id != mine.cluster_id) {
        return Err(format!(
            "node {other} belongs to a cluster already, and this node is empty, so no cluster is bootstrapped here. If \
             node {me} is a member that lost its data: on a member run `raft-namesrv members remove {me}`, start this \
             node with an id never used before, then run `raft-namesrv members add NEW_ID=HOST:PEERPORT`"
        ));
    }
    if info.members != mine.members {
        return Err(format!(
            "node {other} was given other --members than this node ({:?} there, {:?} here): give all nodes the same",
            info.members, mine.members
        ));
    }
    if info.fingerprint != mine.fingerprint {
        return Err(format!(
            "node {other} has other settings for a new cluster than this node: give all nodes the same"
        ));
    }
    Ok(*directory_id)
}
