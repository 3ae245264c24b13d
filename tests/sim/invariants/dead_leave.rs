//! A dead broker is gone within its bound.
//!
//! While nothing is wrong with the nodes: a process whose connections ended goes within a second, a machine that vanished
//! goes when its connections are found out or by its timeout, whatever comes first. Faults of nodes make it later, for
//! clocks start anew where nobody could listen: the bound counts from when the last fault was over.

use crate::host::Moment;
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
}

impl DeadLeave {
    /// When it must be gone at the latest, if nothing is wrong from `calm` on.
    fn bound(death: &Death, calm: Moment) -> Moment {
        let settled = calm + SETTLED_AFTER;
        if death.at < settled {
            return settled + death.timeout + MARGIN;
        }
        if death.seen {
            return death.at + ENDED_WITHIN;
        }
        death.at + death.timeout.min(FOUND_OUT_AFTER) + MARGIN
    }
}

impl Seen {
    /// Looks for dead brokers that are still in tables. Calm since then: no fault of a node or between nodes.
    pub(crate) fn look_for_dead(&mut self, now: Moment, calm: Moment, nodes: &[NodeId]) {
        for (key, death) in &self.dead.deaths {
            let bound = DeadLeave::bound(death, calm);
            if now > bound
                && let Some(node) = nodes.iter().find(|node| self.has(**node, key))
            {
                let text = format!(
                    "{} is dead ({death:?}) and was to be gone by {bound:?}, but node {node} has it at {now:?} \
                     (calm since {calm:?})",
                    key.address
                );
                return self.violated(Err(text));
            }
        }
    }
}
