//! The birth of a cluster, and what an empty node waits for.
//!
//! A cluster is born once: when every listed node says that it is empty and was told the same list and the same
//! first commands, the one with the lowest id draws the cluster's id and writes the first membership, with the data
//! directory of each. An empty node that hears of an existing cluster writes nothing: a member must take it in.

use crate::api::{Member, NodeId};
use crate::consensus::runtime::blocking;
use crate::consensus::types::Contact;
use crate::leader::core::Core;
use crate::peer::connection::Limit;
use crate::peer::handshake::Lane;
use crate::peer::message::{BirthFacts, Reply, Request};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Between two rounds of asking.
const ROUND_PAUSE: Duration = Duration::from_millis(200);
/// For one answer.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Between two looks at a cluster that this node is cut off from.
const LOST_PAUSE: Duration = Duration::from_secs(2);
/// What is in the way is told when it has lasted this long: nodes start one after the other, and for a moment those
/// that are members already meet those that do not know it yet.
const TROUBLE_PATIENCE: Duration = Duration::from_secs(2);
/// The matter of the notices.
const MATTER: &str = "birth";

/// What another node answered.
struct Answer {
    member: Member,
    directory_id: u128,
    facts: BirthFacts,
}

/// Waits for, or brings about, the birth of the cluster; then keeps an eye on being cut off.
pub(crate) async fn run(core: Arc<Core>) {
    let stop = core.context.stop.clone();
    tokio::select! {
        biased;
        () = core.be_born() => {}
        () = stop.cancelled() => return,
    }
    core.context.notices.clear(MATTER);
    tokio::select! {
        biased;
        () = core.ask_when_lost() => {}
        () = stop.cancelled() => {}
    }
}

impl Core {
    async fn be_born(&self) {
        let mut trouble_since = None;
        while !self.is_initialized() {
            let me = self.id();
            let listed = &self.context.options.members;
            if !listed.iter().any(|m| m.id == me) {
                self.context.notices.set(
                    MATTER,
                    format!(
                        "node {me} waits for a cluster: run `raft-namesrv members add {me}=HOST:PEERPORT` on a member"
                    ),
                );
            }
            match self.birth_round().await {
                Ok(None) => trouble_since = None,
                Ok(Some(members)) => {
                    trouble_since = None;
                    self.give_birth(members).await;
                }
                Err(why) => {
                    let since = *trouble_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= TROUBLE_PATIENCE {
                        self.context.notices.set(MATTER, why);
                    }
                }
            }
            sleep(ROUND_PAUSE).await;
        }
    }

    /// One round of asking. Gives the first membership if it is on this node to write it.
    async fn birth_round(&self) -> Result<Option<BTreeMap<NodeId, Contact>>, String> {
        let mine = self.birth_facts();
        let me = self.id();
        if !mine.members.iter().any(|(id, _)| *id == me) {
            // Asked for the notices of the handshakes.
            self.ask_all().await;
            return Ok(None);
        }
        let answers = self.ask_all().await;
        let mut missing = Vec::new();
        let mut members = BTreeMap::new();
        for (member, answer) in answers {
            match answer {
                Ok(answer) => {
                    let directory_id = agree(&mine, &answer, me)?;
                    members.insert(member.id, Contact { address: member.address, directory_id });
                }
                Err(reason) => missing.push(format!("node {} ({}): {reason}", member.id, member.address)),
            }
        }
        if !missing.is_empty() {
            return Err(format!(
                "the cluster is not born yet: it needs all of --members. Missing: {}",
                missing.join(", ")
            ));
        }
        if mine.members.iter().any(|(id, _)| *id < me) {
            return Ok(None);
        }
        let address = mine.members.iter().find(|(id, _)| *id == me).map(|(_, a)| a.clone());
        let contact =
            Contact { address: address.unwrap_or_default(), directory_id: self.context.directory_id };
        members.insert(me, contact);
        Ok(Some(members))
    }

    async fn ask_all(&self) -> Vec<(Member, Result<Answer, String>)> {
        let me = self.id();
        let listed = self.context.options.members.iter().filter(|m| m.id != me).cloned();
        join_all(listed.map(|member| async move {
            let answer = self.ask_birth(&member).await;
            (member, answer)
        }))
        .await
    }

    async fn ask_birth(&self, member: &Member) -> Result<Answer, String> {
        let peer = self.peers.peer(member.id);
        let limit = Limit::Deadline(Instant::now() + ANSWER_MAX);
        match peer.call(Lane::Call, &Request::Birth, limit).await {
            Ok(Reply::Birth(facts)) => match peer.facts() {
                Some(said) => Ok(Answer { member: member.clone(), directory_id: said.directory_id, facts }),
                None => Err("the connection broke".into()),
            },
            Ok(_) => Err("an answer to something else".into()),
            Err(e) => Err(e.to_string()),
        }
    }

    async fn give_birth(&self, members: BTreeMap<NodeId, Contact>) {
        let cluster_id = match self.context.directory.cluster_id() {
            Some(drawn_before) => drawn_before,
            None => {
                let random = || u128::from(self.context.runtime.random_u64());
                let drawn = (random() << 64) | random();
                let directory = Arc::clone(&self.context.directory);
                if let Err(e) = blocking(move || directory.save_cluster_id(drawn)).await {
                    self.context.notices.set(MATTER, format!("the cluster's id cannot be kept: {e}"));
                    return;
                }
                drawn
            }
        };
        let ids: Vec<NodeId> = members.keys().copied().collect();
        match self.raft.initialize(members).await {
            Ok(()) => tracing::info!("cluster {cluster_id:032x} is born, members {ids:?}"),
            Err(e) => {
                self.context.notices.set(MATTER, format!("the first membership cannot be written: {e}"));
            }
        }
    }

    /// A node that has been without a leader for a while asks around: the handshakes tell what is wrong.
    async fn ask_when_lost(&self) {
        loop {
            sleep(LOST_PAUSE).await;
            if self.since_leader().is_some_and(|since| since < LOST_PAUSE) {
                continue;
            }
            for other in self.context.others() {
                let limit = Limit::Deadline(Instant::now() + ANSWER_MAX);
                // Only the handshake matters.
                let _ = self.peers.peer(other.id).call(Lane::Call, &Request::Birth, limit).await;
            }
        }
    }
}

/// Whether another node sees the birth as this one does. Gives its directory.
fn agree(mine: &BirthFacts, answer: &Answer, me: NodeId) -> Result<u128, String> {
    let Answer { member, directory_id, facts } = answer;
    let theirs = member.id;
    if facts.initialized || (facts.cluster_id.is_some() && facts.cluster_id != mine.cluster_id) {
        return Err(format!(
            "node {theirs} belongs to a cluster already, and this node is empty, so no cluster is born here. If node \
             {me} is a member that lost its data: on a member run `raft-namesrv members remove {me}`, start this node \
             with an id never used before, then run `raft-namesrv members add NEW_ID=HOST:PEERPORT`"
        ));
    }
    if facts.members != mine.members {
        return Err(format!(
            "node {theirs} was given other --members than this node ({:?} there, {:?} here): give all nodes the same",
            facts.members, mine.members
        ));
    }
    if facts.fingerprint != mine.fingerprint {
        return Err(format!(
            "node {theirs} has other settings for a new cluster than this node: give all nodes the same"
        ));
    }
    Ok(*directory_id)
}
