//! Of a new lowest id of a broker name a process tells once at most, and only while it leads and has followed the change
//! since it began: what had been applied anywhere before it began is a replay to it. It tells only brokers of that name.

use crate::host::Moment;
use raft::NodeId;
use raft_namesrv::liveness::MinBrokerIdNotice;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use storage::command::Name;
use storage::{Position, RouteInfo, Vote};

/// Who has heard of a newer leader needs so long to take notice.
const LEADS_STILL: Duration = Duration::from_millis(100);

type Members = BTreeMap<Name, BTreeSet<Name>>;

#[derive(Default)]
pub(crate) struct Notices {
    /// When each node's process began: the newest index that any node had applied, and which process it is.
    born: BTreeMap<NodeId, (u64, u64)>,
    /// Until when a node led, if it does no more.
    led: BTreeMap<NodeId, Option<Moment>>,
    /// By process, change and lowest id.
    handed: BTreeSet<(NodeId, u64, Position, i64)>,
    /// Addresses of each broker name, by revision, as far as tables were seen.
    members: BTreeMap<u64, Members>,
    /// Those whose revision was not seen yet.
    unseen: Vec<MinBrokerIdNotice>,
}

impl Notices {
    /// `newest`: what any node had applied.
    pub(crate) fn born(&mut self, node: NodeId, newest: u64) {
        let (begins, process) = self.born.entry(node).or_default();
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
        let (newest, process) = self.born.get(&node).copied().unwrap_or_default();
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

    /// One entry may hold what comes after the change too: who was there before it may hear of it as well.
    fn targets(&self, notice: &MinBrokerIdNotice) -> Result<(), String> {
        let around = self.members.range(..=notice.at.index).rev().take(2);
        let members: BTreeSet<_> =
            around.filter_map(|(_, names)| names.get(&notice.broker)).flatten().collect();
        match notice.targets.iter().find(|target| !members.contains(target)) {
            None => Ok(()),
            Some(target) => Err(format!("{target} is none of {members:?} and is told of {notice:?}")),
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.handed.len() as u64
    }
}
