//! Which members the leader does not reach: one line of the log when a member is lost, one when it is back, and an alert
//! between them. The other nodes need no connection to each other, so they report nothing of this.

use crate::api::{Member, MemberStatus, NodeId};
use crate::consensus::raft::{Raft, answered};
use crate::leader::leadership::Leadership;
use crate::local::LocalNode;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// A member that is back sooner is not reported: a new leader is still connecting.
const UNREACHED_MIN: Duration = Duration::from_secs(2);

/// Watches, on the leader, which members answer it.
pub(crate) struct MemberWatch {
    local: Arc<LocalNode>,
    raft: Raft,
    leadership: Arc<Leadership>,
    unreached: Mutex<Unreached>,
}

impl MemberWatch {
    /// All members are reached.
    pub(crate) fn new(local: Arc<LocalNode>, raft: Raft, leadership: Arc<Leadership>) -> Self {
        Self { local, raft, leadership, unreached: Mutex::default() }
    }

    /// The alert about members that this node, the leader, has not reached for a while.
    pub(crate) fn alert(&self, members: &[MemberStatus]) -> Option<String> {
        let unreached = self.unreached.lock().unwrap_or_else(PoisonError::into_inner);
        alert(members, |id| unreached.lost_for(id, Instant::now()))
    }

    /// Runs until the node stops.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            tokio::select! {
                biased;
                () = self.local.lifecycle.stop.cancelled() => return,
                () = sleep(LOOK_PAUSE) => {}
            }
            let mut unreached = self.unreached.lock().unwrap_or_else(PoisonError::into_inner);
            // A leader whose disk hangs sends no heartbeats in the end, and cannot blame the others for it.
            if !self.leadership.state().leading || self.local.disk.is_hung() {
                *unreached = Unreached::default();
                continue;
            }
            // A connection may be open to a process that hangs, so only an answer counts.
            let (answered, recent) = (answered(&self.raft), self.leadership.recent());
            let is_reached = |id| answered.get(&id).is_some_and(|since| *since < recent);
            let members = self.local.members.snapshot();
            let others = members.effective.nodes.iter().filter(|(id, _)| **id != self.local.id());
            let looked = others
                .map(|(id, contact)| (is_reached(*id), Member { id: *id, address: contact.address.clone() }));
            for change in unreached.look(looked.collect(), Instant::now()) {
                match change {
                    Change::Lost(Member { id, address }) => {
                        tracing::warn!("node {id} at {address} cannot be reached");
                    }
                    Change::Back(Member { id, address }, time) => {
                        tracing::info!("node {id} at {address} is reached again, after {} s", time.as_secs());
                    }
                }
            }
        }
    }
}

/// The members that are not reached now.
#[derive(Default)]
struct Unreached(BTreeMap<NodeId, Since>);

/// Since when a member is not reached.
struct Since {
    at: Instant,
    logged: bool,
}

/// What to log.
#[derive(Debug, PartialEq)]
enum Change {
    Lost(Member),
    Back(Member, Duration),
}

/// The alert: which members, for how long, and how many voters may still be lost.
fn alert(members: &[MemberStatus], lost_for: impl Fn(NodeId) -> Option<Duration>) -> Option<String> {
    let lost = members.iter().filter_map(|status| Some((status, lost_for(status.member.id)?)));
    let texts: Vec<String> = lost
        .map(|(status, time)| {
            let role = if status.voter { "voter" } else { "learner" };
            format!("{role} {} not reached for {} s", status.member.id, time.as_secs())
        })
        .collect();
    let voters = members.iter().filter(|status| status.voter);
    let (all, left) = voters.fold((0, 0), |(all, left), status| {
        (all + 1, left + usize::from(lost_for(status.member.id).is_none()))
    });
    let consequence = match left.checked_sub(all / 2 + 1) {
        None => "writes wait for a majority".to_owned(),
        Some(0) => "no further failure is tolerated".to_owned(),
        Some(1) => "one further failure is tolerated".to_owned(),
        Some(more) => format!("{more} further failures are tolerated"),
    };
    (!texts.is_empty()).then(|| format!("{}; {consequence}", texts.join(", ")))
}

impl Unreached {
    /// For how long a member has not been reached, if that is reported.
    fn lost_for(&self, id: NodeId, now: Instant) -> Option<Duration> {
        self.0.get(&id).filter(|since| since.logged).map(|since| now - since.at)
    }

    /// Takes for each member whether it is reached.
    fn look(&mut self, members: Vec<(bool, Member)>, now: Instant) -> Vec<Change> {
        // A removed member does not come back.
        self.0.retain(|id, _| members.iter().any(|(_, member)| member.id == *id));
        let mut changes = Vec::new();
        for (reached, member) in members {
            if reached {
                let since = self.0.remove(&member.id).filter(|since| since.logged);
                changes.extend(since.map(|since| Change::Back(member, now - since.at)));
                continue;
            }
            let since = self.0.entry(member.id).or_insert(Since { at: now, logged: false });
            if !since.logged && now - since.at >= UNREACHED_MIN {
                since.logged = true;
                changes.push(Change::Lost(member));
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: NodeId) -> Member {
        Member { id, address: format!("h{id}:9976") }
    }

    #[test]
    fn a_member_is_logged_once_when_it_is_lost_and_once_when_it_is_back() {
        let (mut unreached, begun) = (Unreached::default(), Instant::now());
        let mut look = |ms: u64, reached: [bool; 2]| {
            let members = vec![(reached[0], member(2)), (reached[1], member(3))];
            unreached.look(members, begun + Duration::from_millis(ms))
        };
        assert_eq!(look(0, [true, false]), []);
        assert_eq!(look(1_900, [true, true]), [], "it was only connecting");
        assert_eq!(look(2_000, [true, false]), []);
        assert_eq!(look(4_000, [true, false]), [Change::Lost(member(3))]);
        assert_eq!(look(60_000, [false, false]), [], "once");
        assert_eq!(look(62_000, [true, true]), [Change::Back(member(3), Duration::from_secs(60))]);
        assert_eq!(look(63_000, [true, true]), []);
    }

    #[test]
    fn the_alert_says_for_how_long_and_what_is_tolerated() {
        let status =
            |id: NodeId| MemberStatus { member: member(id), voter: id <= 5, reachable: true, matched: None };
        let members: Vec<_> = (1..=6).map(status).collect();
        let of = |voters: usize, lost: &[NodeId]| {
            let seconds = |id| lost.contains(&id).then(|| Duration::from_secs(id + 6));
            let learner = lost.contains(&6).then(|| members[5].clone());
            let members: Vec<_> = members[..voters].iter().cloned().chain(learner).collect();
            alert(&members, seconds).unwrap_or_default()
        };
        assert_eq!(of(3, &[]), "");
        assert_eq!(of(3, &[2]), "voter 2 not reached for 8 s; no further failure is tolerated");
        assert_eq!(of(5, &[2]), "voter 2 not reached for 8 s; one further failure is tolerated");
        let two = "voter 2 not reached for 8 s, voter 3 not reached for 9 s; ";
        assert_eq!(of(5, &[2, 3]), format!("{two}no further failure is tolerated"));
        assert_eq!(of(3, &[2, 3]), format!("{two}writes wait for a majority"));
        assert_eq!(of(3, &[6]), "learner 6 not reached for 12 s; one further failure is tolerated");
    }

    #[test]
    fn a_removed_member_is_forgotten() {
        let (mut unreached, begun) = (Unreached::default(), Instant::now());
        assert_eq!(unreached.look(vec![(false, member(2))], begun), []);
        let later = begun + UNREACHED_MIN;
        assert_eq!(unreached.look(vec![(false, member(2))], later), [Change::Lost(member(2))]);
        assert_eq!(unreached.look(vec![], later), []);
        assert_eq!(unreached.look(vec![(true, member(2))], later), []);
    }
}
