//! No living broker is removed, unless it could not be heard.
//!
//! A broker is *covered* while a node runs to which it has a connection that works, over which it was answered,
//! whatever it said, and which has been linked for a while with all other nodes that run, one at least. It has
//! registered somewhere. One that was covered throughout must not go. One that was not may have ended its connections
//! as far as the others can tell, and expires when it was uncovered for its whole timeout. Of that only the time counts in
//! which the deciding node ran, since a paused node hears no broker, and which comes after the broker's last registration
//! that was answered with success, since the leader has that heartbeat. Time before the deciding node was without a
//! majority for a while does not count either; there the judge is stricter than the in-service clock.
//!
//! It goes for a connection that ended only if a node did find one ended then, by the broker or since the path was cut
//! for too long. A connection that a node ends itself, or that ends with a node, takes no broker with it. The end of a
//! connection of the broker's former process counts too, which a node may find late: the only node that has a connection of
//! the new one may be lost in the same second. No end counts that follows from what befell the node: the broker must have
//! spoken over that connection since the node last was without a majority, or stood still for long.

use crate::host::Moment;
use crate::network::{Ended, Place};
use crate::reachability::Reachability;
use crate::record::Removed;
use raft::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use storage::command::Cause;
use storage::route_info::BrokerKey;

/// It must be covered for so long to be heard for sure: brokers speak every second, and packets may be late.
const HEARTBEAT_WITHIN: Duration = Duration::from_millis(2_500);
/// A removal that was decided while it was uncovered is carried out within this after it is covered again.
const DECIDED_EARLIER: Duration = Duration::from_secs(5);
/// A node may hear so much later, or tell, that a connection has ended.
const REPORTED_WITHIN: Duration = Duration::from_secs(3);
/// Idle times are known no finer.
const FINENESS: Duration = Duration::from_millis(2_000);

/// A connection of a process: to which node, and which one.
pub(crate) type Connection = (NodeId, u64);

/// A broker's process.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    pub(crate) place: Place,
    pub(crate) timeout: Duration,
    pub(crate) registered: bool,
    /// When it asked for the last registration that was answered with success.
    succeeded: Moment,
    /// Connections that are open as far as it knows and over which it was answered, and whether it has registered there.
    sessions: BTreeMap<Connection, bool>,
    covered_since: Option<Moment>,
    uncovered_since: Option<Moment>,
    last_uncovered: Option<(Moment, Moment)>,
}

#[derive(Default)]
pub(crate) struct LivingStay {
    pub(crate) lives: BTreeMap<BrokerKey, Life>,
    /// The machines of each broker's processes so far.
    places: BTreeMap<BrokerKey, BTreeSet<Place>>,
}

impl LivingStay {
    pub(crate) fn started(&mut self, now: Moment, key: BrokerKey, place: Place, timeout: Duration) {
        let life = Life {
            place,
            timeout,
            registered: false,
            succeeded: now,
            sessions: BTreeMap::new(),
            covered_since: None,
            uncovered_since: Some(now),
            last_uncovered: None,
        };
        self.places.entry(key.clone()).or_default().insert(place);
        self.lives.insert(key, life);
    }

    /// Something was answered with success.
    pub(crate) fn answered(&mut self, key: &BrokerKey, over: Connection) {
        if let Some(life) = self.lives.get_mut(key) {
            life.sessions.entry(over).or_default();
        }
    }

    /// A registration, asked for then, was answered with success.
    pub(crate) fn registered(&mut self, asked: Moment, key: &BrokerKey, over: Connection) {
        if let Some(life) = self.lives.get_mut(key) {
            life.registered = true;
            life.succeeded = life.succeeded.max(asked);
            life.sessions.insert(over, true);
        }
    }

    /// Its connection ended, by whomever.
    pub(crate) fn ended(&mut self, now: Moment, key: &BrokerKey, connection: Connection) {
        if let Some(life) = self.lives.get_mut(key) {
            life.sessions.remove(&connection);
            if life.sessions.is_empty() {
                life.uncovered(now);
            }
        }
    }

    pub(crate) fn died(&mut self, key: &BrokerKey) -> Option<Life> {
        self.lives.remove(key)
    }

    /// Looks at all brokers; `covers` tells whether a node hears a broker's machine and can pass that on.
    pub(crate) fn look(&mut self, now: Moment, covers: impl Fn(NodeId, Place) -> bool) {
        for life in self.lives.values_mut() {
            if !life.sessions.keys().any(|(node, _)| covers(*node, life.place)) {
                life.uncovered(now);
                continue;
            }
            let since = *life.covered_since.get_or_insert(now);
            if now >= since + HEARTBEAT_WITHIN
                && let Some(from) = life.uncovered_since.take()
            {
                life.last_uncovered = Some((from, now));
            }
        }
    }

    /// `by`: the node that decided it.
    /// `ended`: the ends that nodes found of a machine's connections.
    pub(crate) fn removed(
        &self,
        removed: &Removed,
        by: NodeId,
        reachability: &Reachability,
        ended: impl Fn(Place) -> Vec<Ended>,
    ) -> Result<(), String> {
        let Some(life) = self.lives.get(&removed.key).filter(|life| life.registered) else { return Ok(()) };
        let stretch = life.uncovered_since.map(|from| (from, removed.at)).or(life.last_uncovered);
        let places = self.places.get(&removed.key).into_iter().flatten();
        let ended: Vec<_> = places.flat_map(|place| ended(*place)).collect();
        let counts = |end: &&Ended| reachability.is_steady(end.node, end.spoke, end.at);
        let last = ended.iter().filter(counts).map(|end| end.at).max();
        let excused = stretch.is_some_and(|(from, to)| {
            let lately = removed.at <= to + DECIDED_EARLIER;
            let cause = match removed.cause {
                Cause::Expired { .. } => {
                    reachability.countable_idle(by, from.max(life.succeeded), to) + FINENESS >= life.timeout
                }
                Cause::Disconnected | Cause::Asked => last.is_some_and(|at| at + REPORTED_WITHIN >= from),
            };
            lately && cause
        });
        if excused {
            return Ok(());
        }
        Err(format!("a living broker was removed by node {by}: {removed:?}, {life:?}, ended {ended:?}"))
    }
}

impl Life {
    /// It has registered over a connection that is open.
    pub(crate) fn is_strong(&self) -> bool {
        self.sessions.values().any(|strong| *strong)
    }

    /// It has registered over an open connection to a node other than this.
    pub(crate) fn is_strong_beside(&self, node: NodeId) -> bool {
        self.sessions.iter().any(|((at, _), strong)| *at != node && *strong)
    }

    fn uncovered(&mut self, now: Moment) {
        self.covered_since = None;
        self.uncovered_since.get_or_insert(now);
    }
}
