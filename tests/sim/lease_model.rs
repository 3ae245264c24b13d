//! How much is left of the lease of each dead broker, at most, as the leaders that follow each other can count it.
//!
//! Only the time counts in which a leader runs, has a majority and was elected a while ago. A heartbeat that any node reads
//! and a registration that is applied renew a lease. A change of leader, and a node that the leader loses or finds
//! restarted, leave it the grace at least.

use crate::host::Moment;
use crate::node::NODES;
use crate::reachability::Reachability;
use raft::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;
use storage::route_info::BrokerKey;

/// The least that is left after a change of leader or the loss of a node: this, or a quarter of the timeout.
const GRACE_MIN: Duration = Duration::from_secs(10);
/// A leader finds out within this that it has lost a node.
const LOST_WITHIN: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct LeaseModel {
    /// The last leader, and when it was elected.
    leader: Option<(NodeId, Moment)>,
    /// The other nodes as that leader last saw them: process, and whether it reaches it.
    seen: BTreeMap<NodeId, (usize, bool)>,
    leases: BTreeMap<BrokerKey, Lease>,
}

struct Lease {
    timeout: Duration,
    last_heartbeat: Option<Moment>,
    left: Duration,
}

impl Lease {
    fn extend(&mut self, by: Duration) {
        let grace = self.timeout.min(GRACE_MIN.max(self.timeout / 4));
        self.left = self.left.max(grace + by);
    }
}

impl LeaseModel {
    /// These brokers are dead, each with its timeout and the moment at which a node last read something from it.
    pub(crate) fn only(&mut self, dead: &BTreeMap<BrokerKey, (Duration, Option<Moment>)>) {
        self.leases.retain(|key, _| dead.contains_key(key));
        for (key, (timeout, last_heartbeat)) in dead {
            let fresh = || Lease { timeout: *timeout, last_heartbeat: *last_heartbeat, left: *timeout };
            let lease = self.leases.entry(key.clone()).or_insert_with(fresh);
            if lease.last_heartbeat < *last_heartbeat {
                *lease = fresh();
            }
        }
    }

    /// A node applied a registration.
    pub(crate) fn registered(&mut self, key: &BrokerKey) {
        if let Some(lease) = self.leases.get_mut(key) {
            lease.left = lease.timeout;
        }
    }

    /// Time goes on; it did so `every` ago. `leader`: the one that can decide, and when it was elected.
    pub(crate) fn step(
        &mut self,
        every: Duration,
        leader: Option<(NodeId, Moment)>,
        reachability: &Reachability,
    ) {
        let Some((leader, elected)) = leader else { return };
        let Some((_, sight)) = reachability.sight(leader) else { return };
        if self.leader != Some((leader, elected)) {
            self.leader = Some((leader, elected));
            self.seen.clear();
            self.extend(Duration::ZERO);
        }
        if !sight.runs || !sight.fair || (sight.speaks_with.len() + 1) * 2 <= NODES.len() {
            return;
        }
        for other in NODES.into_iter().filter(|other| *other != leader) {
            let process = reachability.sight(other).map_or(0, |(process, _)| process);
            let now = (process, sight.speaks_with.contains(&other));
            let before = self.seen.insert(other, now);
            if before.is_some_and(|before| before.1 && before != now || before.0 != process) {
                self.extend(LOST_WITHIN);
            }
        }
        self.leases.values_mut().for_each(|lease| lease.left = lease.left.saturating_sub(every));
    }

    fn extend(&mut self, by: Duration) {
        self.leases.values_mut().for_each(|lease| lease.extend(by));
    }

    /// The brokers whose leases have expired.
    pub(crate) fn expired(&self) -> impl Iterator<Item = &BrokerKey> {
        self.leases.iter().filter(|(_, lease)| lease.left.is_zero()).map(|(key, _)| key)
    }
}
