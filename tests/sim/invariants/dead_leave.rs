//! A dead broker is gone within its bound.
//!
//! A process whose connections ended, one of them strong, goes within a second; one that had weak ones only, or is not
//! followed, goes by its timeout. A machine that vanished goes when its connections are found out or by its timeout,
//! whatever comes first: at each leader that runs, speaks with a majority, and has known of all brokers for a while what can
//! be known. Who led before it, and how often that changed, does not matter. What happens to this leader or between it and
//! the others makes it later, for what it cannot know meanwhile is no silence.

use crate::hearing::Decider;
use crate::host::Moment;
use crate::record::Seen;
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
const SETTLED_AFTER: Duration = Duration::from_secs(4);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Death {
    pub(crate) at: Moment,
    pub(crate) timeout: Duration,
    /// The connections ended; else the machine vanished.
    pub(crate) seen: bool,
}

#[derive(Default)]
pub(crate) struct DeadLeave {
    pub(crate) deaths: BTreeMap<BrokerKey, Death>,
    /// How much longer it takes in this run: slow disks, and what a guard may keep.
    pub(crate) patience: Duration,
    /// Nodes do not follow all sessions, and may not see an end.
    pub(crate) unfollowed: bool,
}

impl DeadLeave {
    /// When it must be gone at the latest, if the leader knows of brokers what can be known since then.
    fn bound(&self, death: &Death, knows_since: Moment) -> Moment {
        let settled = knows_since + SETTLED_AFTER;
        let bound = if death.at < settled {
            settled + death.timeout + MARGIN
        } else if death.seen {
            death.at + ENDED_WITHIN
        } else {
            death.at + death.timeout.min(FOUND_OUT_AFTER) + MARGIN
        };
        bound + self.patience
    }
}

impl Seen {
    /// Looks for dead brokers that are still in tables.
    pub(crate) fn look_for_dead(&mut self, now: Moment, decider: &Decider) {
        for (key, death) in &self.dead.deaths {
            let bound = self.dead.bound(death, decider.knows_since);
            if now > bound
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
