//! What a node says of itself.

use crate::api::{Leadership, Member, MemberStatus, Status};
use crate::consensus::types::log_id;
use crate::leader::core::Core;
use openraft::async_runtime::watch::WatchReceiver;
use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::Duration;
use storage::LogId;

/// An operator hears of a lost leader after so many of the longest election timeouts: an election is no matter.
const PATIENCE_ELECTIONS: u64 = 8;

impl Core {
    /// A picture of the node as of now.
    pub(crate) fn status(&self) -> Status {
        let log = self.context.log.state();
        let committed = {
            let metrics = self.raft.metrics();
            let metrics = metrics.borrow_watched();
            metrics.local_committed.as_ref().map(log_id)
        };
        let snapshot = self.snapshots.latest();
        let (since_leader, held) = (self.since_leader(), self.leadership());
        // As an operator means it: heard lately, with its majority.
        let leader = held.leader.filter(|_| since_leader.is_some_and(|since| since < self.lately()));
        let members = self.member_statuses();
        Status {
            node_id: self.id(),
            cluster_id: self.context.directory.cluster_id(),
            directory_id: self.context.directory_id,
            standing: self.standing(),
            leadership: Leadership { leader, leading: held.leading && leader == Some(self.id()), ..held },
            since_leader,
            last: log.last,
            committed,
            applied: self.published.applied(),
            purged: log.purged,
            snapshot: snapshot.as_ref().map(|meta| meta.last),
            log_bytes: log.bytes,
            state_hash: snapshot.map(|meta| (meta.last, meta.state_hash)),
            diverged: {
                let diverged = self.diverged.lock().unwrap_or_else(PoisonError::into_inner);
                diverged.iter().copied().collect()
            },
            notice: self.notice(since_leader, &members),
            members,
        }
    }

    /// What an operator should know, the loss of the leader among it.
    fn notice(&self, since_leader: Option<Duration>, members: &[MemberStatus]) -> String {
        let mut text = self.context.notices.text();
        let patience =
            Duration::from_millis(PATIENCE_ELECTIONS * self.context.options.timing.election_max_ms);
        if let Some(since) = since_leader.filter(|since| *since > patience) {
            let unreached: Vec<String> = members
                .iter()
                .filter(|status| status.voter && !status.reachable)
                .map(|status| format!("node {} ({})", status.member.id, status.member.address))
                .collect();
            if !text.is_empty() {
                text.push_str("; ");
            }
            let seconds = since.as_secs();
            text.push_str(&format!(
                "no leader with a majority was heard for {seconds} s, so writes are refused; voters not reached: {}",
                if unreached.is_empty() { "none".to_owned() } else { unreached.join(", ") }
            ));
        }
        text
    }

    fn member_statuses(&self) -> Vec<MemberStatus> {
        let members = self.context.members.load();
        let voters: BTreeSet<u64> = members.effective.voter_ids().collect();
        let matched = self.matched();
        let matched_of = |id: u64| -> Option<LogId> {
            if id == self.id() {
                return self.context.log.state().last.filter(|_| self.leadership().leading);
            }
            matched.iter().find(|(member, _)| *member == id).and_then(|(_, at)| *at)
        };
        let mut statuses: Vec<MemberStatus> = members
            .effective
            .nodes()
            .map(|(id, contact)| MemberStatus {
                member: Member { id: *id, address: contact.address.clone() },
                voter: voters.contains(id),
                reachable: *id == self.id() || self.peers.is_reachable(*id),
                matched: matched_of(*id),
            })
            .collect();
        statuses.sort_by_key(|status| (!status.voter, status.member.id));
        statuses
    }
}
