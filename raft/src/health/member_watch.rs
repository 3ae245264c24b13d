//! Logs which members the leader does not reach: once when a member is lost, and once when it is back. The other nodes
//! need no connection to each other, so they log nothing of this.

use crate::api::{Member, NodeId};
use crate::leader::leadership::Leadership;
use crate::local::LocalNode;
use crate::peer::peers::Peers;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// A member that is back sooner is not logged: a new leader is still connecting.
const UNREACHED_MIN: Duration = Duration::from_secs(2);

/// Watches the connections of the leader.
pub(crate) struct MemberWatch {
    local: Arc<LocalNode>,
    leadership: Arc<Leadership>,
    peers: Arc<Peers>,
    unreached: Unreached,
}

impl MemberWatch {
    /// All members are reached.
    pub(crate) fn new(local: Arc<LocalNode>, leadership: Arc<Leadership>, peers: Arc<Peers>) -> Self {
        Self { local, leadership, peers, unreached: Unreached::default() }
    }

    /// Runs until the node stops.
    pub(crate) async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                () = self.local.lifecycle.stop.cancelled() => return,
                () = sleep(LOOK_PAUSE) => {}
            }
            if !self.leadership.state().leading {
                self.unreached = Unreached::default();
                continue;
            }
            let members = self.local.other_nodes();
            let looked = members.into_iter().map(|member| (self.peers.is_reachable(member.id), member));
            for change in self.unreached.look(looked.collect(), Instant::now()) {
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

impl Unreached {
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
    fn a_removed_member_is_forgotten() {
        let (mut unreached, begun) = (Unreached::default(), Instant::now());
        assert_eq!(unreached.look(vec![(false, member(2))], begun), []);
        let later = begun + UNREACHED_MIN;
        assert_eq!(unreached.look(vec![(false, member(2))], later), [Change::Lost(member(2))]);
        assert_eq!(unreached.look(vec![], later), []);
        assert_eq!(unreached.look(vec![(true, member(2))], later), []);
    }
}
