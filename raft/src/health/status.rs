//! The report of this node.

use super::member_watch::MemberWatch;
use super::state_check::StateCheck;
use crate::api::{LeaderState, Member, MemberStatus, Phase, Status};
use crate::consensus::applied_state::AppliedStatePublisher;
use crate::consensus::raft::{Raft, committed, matched};
use crate::leader::lag::LagWatch;
use crate::leader::leadership::Leadership;
use crate::leader::recovery::Recovery;
use crate::local::LocalNode;
use crate::peer::peers::Peers;
use std::sync::Arc;
use std::time::Duration;
use storage::LogId;
use storage::snapshots::Snapshots;
use tokio::time::Instant;

/// An operator learns of a lost leader after so many of the longest election timeouts: an election alone is no alert.
const ALERT_ELECTIONS: u32 = 8;

/// Reports on this node.
pub(crate) struct StatusReporter {
    pub(crate) local: Arc<LocalNode>,
    pub(crate) raft: Raft,
    pub(crate) applied: Arc<AppliedStatePublisher>,
    pub(crate) snapshots: Arc<dyn Snapshots>,
    pub(crate) leadership: Arc<Leadership>,
    pub(crate) recovery: Arc<Recovery>,
    pub(crate) lag: Arc<LagWatch>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) state_check: Arc<StateCheck>,
    pub(crate) member_watch: Arc<MemberWatch>,
    /// When this node began.
    pub(crate) begun: Instant,
}

impl StatusReporter {
    /// The node as of now.
    pub(crate) fn status(&self) -> Status {
        let me = self.local.id();
        let log = self.local.log.state();
        let snapshot = self.snapshots.latest();
        let since_leader_contact = self.leadership.since_contact();
        let state = self.leadership.state();
        // As an operator understands it: of recent contact, and with its majority.
        let is_recent = since_leader_contact.is_some_and(|since| since < self.leadership.recent());
        let leader = state.leader.filter(|_| is_recent);
        let members = self.members();
        Status {
            node_id: me,
            cluster_id: self.local.directory.cluster_id(),
            directory_id: self.local.directory_id,
            phase: self.recovery.phase(),
            leadership: LeaderState { leader, leading: state.leading && leader == Some(me), ..state },
            since_leader_contact,
            last: log.last,
            committed: committed(&self.raft),
            applied: self.applied.applied(),
            lag: self.lag.lag(),
            purged: log.purged,
            snapshot: snapshot.as_ref().map(|meta| meta.last),
            log_bytes: log.bytes,
            state_hash: snapshot.map(|meta| (meta.last, meta.state_hash)),
            diverged: self.state_check.diverged(),
            tick_lateness: self.leadership.lateness(),
            alerts: self.alerts(since_leader_contact, &members),
            members,
        }
    }

    /// The alerts, and the loss of the leader or of other members.
    fn alerts(&self, since_contact: Option<Duration>, members: &[MemberStatus]) -> String {
        let mut texts = self.local.alerts.texts();
        let patience = ALERT_ELECTIONS * self.leadership.election_timeout_max();
        // A node that is no member waits for no leader.
        let expects_one = matches!(self.recovery.phase(), Phase::Recovering | Phase::Recovered);
        let since = since_contact.unwrap_or_else(|| self.begun.elapsed());
        if expects_one && since > patience {
            let unreached: Vec<String> = members
                .iter()
                .filter(|status| status.voter && !status.reachable)
                .map(|status| format!("node {} ({})", status.member.id, status.member.address))
                .collect();
            let seconds = since.as_secs();
            texts.push(format!(
                "no leader with a majority was heard for {seconds} s, so writes are refused; voters not reached: {}",
                if unreached.is_empty() { "none".to_owned() } else { unreached.join(", ") }
            ));
        } else {
            texts.extend(self.member_watch.alert(members));
        }
        texts.join("; ")
    }

    fn members(&self) -> Vec<MemberStatus> {
        let members = self.local.members.load();
        let matched = matched(&self.raft);
        let matched_of = |id: u64| -> Option<LogId> {
            if id == self.local.id() {
                return self.local.log.state().last.filter(|_| self.leadership.state().leading);
            }
            matched.iter().find(|(member, _)| *member == id).and_then(|(_, at)| *at)
        };
        let mut statuses: Vec<MemberStatus> = members
            .effective
            .nodes
            .iter()
            .map(|(id, contact)| MemberStatus {
                member: Member { id: *id, address: contact.address.clone() },
                voter: members.is_voter(*id),
                reachable: *id == self.local.id() || self.peers.is_reachable(*id),
                matched: matched_of(*id),
            })
            .collect();
        statuses.sort_by_key(|status| (!status.voter, status.member.id));
        statuses
    }
}
