//! A dead broker is gone within its bound.
//!
//! A process whose connections ended, one of them strong, goes within a second, and a machine that vanished, with a strong
//! one, when its connections are found out: where a leader that runs and speaks with a majority had known of all brokers for a while
//! what can be known, and no node has been cut off or stood still lately, after which ends may be old ones.
//!
//! All others, and those too, go by their leases ([`lease_model`](crate::lease_model)). Once a lease has expired, the leaders
//! that follow each other have a while altogether to decide.

use crate::host::Moment;
use crate::lease_model::LeaseModel;
use crate::network::{Network, Place};
use crate::reachability::Decider;
use crate::record::Seen;
use raft::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;
use storage::route_info::BrokerKey;

/// Ends that all nodes saw.
const ENDED_WITHIN: Duration = Duration::from_millis(1_000);
/// A machine that vanished: the nodes' user time-out.
const FOUND_OUT_AFTER: Duration = Duration::from_secs(10);
/// Deciding, proposing and applying, with some late packets.
const MARGIN: Duration = Duration::from_millis(2_500);
/// After faults the nodes find each other again and elect within this.
pub(crate) const SETTLED_AFTER: Duration = Duration::from_secs(4);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Death {
    pub(crate) at: Moment,
    pub(crate) timeout: Duration,
    pub(crate) how: How,
    /// Where it was, and the last connection that was made by then.
    pub(crate) place: Place,
    pub(crate) made: u64,
}

/// What the nodes find, if there is something to be found but silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// All connections ended.
    Seen,
    /// The machine vanished.
    Vanished,
    Silent,
}

#[derive(Default)]
pub(crate) struct DeadLeave {
    pub(crate) deaths: BTreeMap<BrokerKey, Death>,
    pub(crate) leases: LeaseModel,
    /// For how long the leaders altogether have had each broker that was to go by its timeout.
    overdue: BTreeMap<BrokerKey, Duration>,
    /// How much longer it takes in this run: slow disks, and what a guard may keep.
    pub(crate) patience: Duration,
}

impl DeadLeave {
    /// Whether its connections ended, one of them strong.
    pub(crate) fn is_seen(&self, key: &BrokerKey) -> bool {
        self.deaths.get(key).is_some_and(|death| death.how == How::Seen)
    }

    /// When it must be gone at the latest, since its connections ended, if the leader knows of brokers what can be known
    /// since then.
    fn bound(&self, death: &Death, knows_since: Moment) -> Option<Moment> {
        let found = match death.how {
            How::Seen => ENDED_WITHIN,
            How::Vanished => FOUND_OUT_AFTER + MARGIN,
            How::Silent => return None,
        };
        (death.at >= knows_since + SETTLED_AFTER).then_some(death.at + found + self.patience)
    }

    /// Time goes on; it did so `every` ago.
    fn step(&mut self, every: Duration, overdue: impl Iterator<Item = BrokerKey>) {
        let deaths = &self.deaths;
        self.overdue.retain(|key, _| deaths.contains_key(key));
        overdue.for_each(|key| *self.overdue.entry(key).or_default() += every);
    }
}

impl Seen {
    /// Time goes on for the leases of dead brokers; `leader`: the one that can decide, and when it was elected.
    pub(crate) fn count_leases(
        &mut self,
        now: Moment,
        every: Duration,
        network: &Network,
        leader: Option<(NodeId, Moment)>,
    ) {
        let dead = &mut self.dead;
        let last_read = |death: &Death| {
            network.last_read(death.place, death.made).filter(|last_read| *last_read > death.at)
        };
        let begun = dead.deaths.iter().filter(|(_, death)| now >= death.at);
        let begun = begun.map(|(key, death)| (key.clone(), (death.timeout, last_read(death)))).collect();
        dead.leases.only(&begun);
        dead.leases.step(every, leader, &self.reachability);
        let Some((leader, _)) = leader else { return };
        let present = self.present.get(&leader);
        let here = |key: &&BrokerKey| present.is_some_and(|present| present.contains(*key));
        let overdue: Vec<BrokerKey> = dead.leases.expired().filter(here).cloned().collect();
        dead.step(every, overdue.into_iter());
        if let Some((key, over)) = dead.overdue.iter().find(|(_, over)| **over > MARGIN + dead.patience) {
            let text = format!(
                "{} is dead ({:?}) and its lease has expired; those who led, node {leader} now, had {over:?} to remove it",
                key.address, dead.deaths[key]
            );
            self.violated(Err(text));
        }
    }

    /// Looks for dead brokers that are still in tables.
    pub(crate) fn look_for_dead(&mut self, now: Moment, decider: &Decider) {
        for (key, death) in &self.dead.deaths {
            if let Some(bound) = self.dead.bound(death, decider.knows_since).filter(|bound| now > *bound)
                && let Some(node) = decider.nodes.iter().find(|node| self.has(**node, key))
            {
                let text = format!(
                    "{} is dead ({death:?}) and was to be gone by {bound:?}, but node {node} has it at {now:?}: {decider:?}",
                    key.address
                );
                return self.violated(Err(text));
            }
        }
    }
}
