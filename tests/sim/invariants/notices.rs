//! A process sends at most one notice of a new lowest id of a broker name, and only while it leads and has followed the
//! change since it began: what had been applied anywhere before it began is a replay to it. Only brokers of that name get
//! the notice.
//!
//! While nothing goes wrong, the notice of the last change of each name goes out soon: from the leader that applies it, or
//! from the next one.

use crate::host::Moment;
use raft::{AppliedEntry, NodeId};
use raft_namesrv::min_broker_id::MinBrokerIdNotice;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use storage::command::Name;
use storage::outcome::Event;
use storage::{Position, RouteInfo, Vote};

/// A node whose vote is for a newer leader goes on as a leader for this long at most.
const LEADS_STILL: Duration = Duration::from_millis(100);

/// A notice goes out within this, also when another node begins to lead meanwhile.
const REPORTED_WITHIN: Duration = Duration::from_millis(2_500);

type Members = BTreeMap<Name, BTreeSet<Name>>;

#[derive(Default)]
pub(crate) struct Notices {
    /// When each node's process began: the newest index that any node had applied, and which process it is.
    started: BTreeMap<NodeId, (u64, u64)>,
    /// Until when a node led, if it does no more.
    led: BTreeMap<NodeId, Option<Moment>>,
    /// Notices that went out, by process, change and lowest id.
    handed: BTreeSet<(NodeId, u64, Position, i64)>,
    /// Addresses of each broker name, by revision, as far as tables were seen.
    members: BTreeMap<u64, Members>,
    /// Those whose revision was not seen yet.
    unseen: Vec<MinBrokerIdNotice>,
    /// The last change of each name: when, which, and the lowest id.
    changed: BTreeMap<Name, (Moment, Position, i64)>,
    /// Since when nothing goes wrong, if that is so.
    calm_since: Option<Moment>,
    /// Changes that needed a notice, and got one.
    due: u64,
}

impl Notices {
    /// `newest`: what any node had applied.
    pub(crate) fn started(&mut self, node: NodeId, newest: u64) {
        let (begins, process) = self.started.entry(node).or_default();
        (*begins, *process) = (newest, *process + 1);
    }

    pub(crate) fn voted(&mut self, now: Moment, node: NodeId, vote: Vote) {
        if vote.committed && vote.node == node {
            self.led.insert(node, None);
        } else if let Some(until) = self.led.get_mut(&node) {
            until.get_or_insert(now);
        }
    }

    pub(crate) fn table(&mut self, table: &RouteInfo) -> Result<(), String> {
        let Some(index) = table.revision().map(|id| id.index) else { return Ok(()) };
        let groups = table.groups();
        let members = |brokers: &[(i64, Name)]| brokers.iter().map(|(_, address)| address.clone()).collect();
        self.members
            .entry(index)
            .or_insert_with(|| groups.map(|(name, group)| (name.clone(), members(&group.brokers))).collect());
        let (seen, unseen) = std::mem::take(&mut self.unseen).into_iter().partition(|n| n.at.index == index);
        self.unseen = unseen;
        let seen: Vec<MinBrokerIdNotice> = seen;
        seen.iter().try_for_each(|notice| self.targets(notice))
    }

    pub(crate) fn handed(
        &mut self,
        now: Moment,
        node: NodeId,
        notice: MinBrokerIdNotice,
    ) -> Result<(), String> {
        let (newest, process) = self.started.get(&node).copied().unwrap_or_default();
        let led = self.led.get(&node);
        if !led.is_some_and(|until| until.is_none_or(|until| now <= until + LEADS_STILL)) {
            return Err(format!("node {node}, which does not lead ({led:?}), tells of {notice:?}"));
        }
        if notice.at.index <= newest {
            return Err(format!("node {node} began when {newest} was applied, and tells of {notice:?}"));
        }
        if !self.handed.insert((node, process, notice.at, notice.min_id)) {
            return Err(format!("node {node} tells twice of {notice:?}"));
        }
        if self.members.contains_key(&notice.at.index) {
            return self.targets(&notice);
        }
        self.unseen.push(notice);
        Ok(())
    }

    /// One entry may hold what comes after the change too: brokers that were there before it may get the notice as well.
    fn targets(&self, notice: &MinBrokerIdNotice) -> Result<(), String> {
        let around = self.members.range(..=notice.at.index).rev().take(2);
        let members: BTreeSet<_> =
            around.filter_map(|(_, names)| names.get(&notice.broker)).flatten().collect();
        match notice.targets.iter().find(|target| !members.contains(target)) {
            None => Ok(()),
            Some(target) => Err(format!("{target} is none of {members:?} and is told of {notice:?}")),
        }
    }

    /// The first node applied an entry.
    pub(crate) fn applied(&mut self, now: Moment, entry: &AppliedEntry) {
        for (number, event) in (0u32..).zip(&entry.events) {
            if let Event::MinBrokerIdChanged { broker, min_id, .. } = event {
                let at = Position { index: entry.id.index, number };
                self.changed.insert(broker.clone(), (now, at, *min_id));
            }
        }
    }

    /// From then on nothing goes wrong, or it does again.
    pub(crate) fn calm(&mut self, since: Option<Moment>) {
        self.calm_since = since;
    }

    /// Looks for a change of which no notice went out. `patience`: how much longer it takes in this run.
    pub(crate) fn look(&mut self, now: Moment, patience: Duration) -> Result<(), String> {
        let Some(calm) = self.calm_since else { return Ok(()) };
        let due = |(at, ..): &(Moment, Position, i64)| *at >= calm && now > *at + REPORTED_WITHIN + patience;
        for (broker, (at, position, min_id)) in self.changed.extract_if(.., |_, changed| due(changed)) {
            if !self.handed.iter().any(|(_, _, due, id)| (due, id) == (&position, &min_id)) {
                return Err(format!(
                    "nobody tells that {min_id} is the lowest id of {broker} since {at:?}, {position:?}"
                ));
            }
            self.due += 1;
        }
        Ok(())
    }

    /// Changes that needed a notice, and got one.
    pub(crate) fn due(&self) -> u64 {
        self.due
    }

    pub(crate) fn count(&self) -> u64 {
        self.handed.len() as u64
    }
}
