//! What each node reported of its sessions, as one voter has it.

use super::Strength;
use super::clock::Running;
use super::report::{Cause, Change, Content, End, Full, Report};
use raft::NodeId;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;
use storage::route_info::BrokerKey;

/// A node is reachable while its stream spoke within this time. Also the longest wait for its answer.
pub(super) const REACHABLE_FOR: Duration = Duration::from_secs(1);
/// Former processes of a node whose late reports are recognised.
const FORMER_PROCESSES: usize = 8;
/// How late a report of a process that is no more can come.
const LATE_REPORTS: Duration = Duration::from_secs(10);

/// What a report means for a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// It was heard then.
    Heard(BrokerKey, Running),
    /// A session appeared.
    Appeared(BrokerKey),
    /// The peer ended a session.
    Ended(BrokerKey, End),
    /// A node ended a session by itself.
    EndedByNode(BrokerKey),
    /// It speaks over a connection that a node does not follow.
    NotFollowed(BrokerKey),
    /// A node that held a session is cut off, gone, or back: what happened there meanwhile is not known.
    Unsure(BrokerKey),
    /// From this moment until now it may have been heard by a node, and nobody can tell any more.
    Untold(BrokerKey, Running),
}

/// A member's stream, as received.
#[derive(Debug)]
struct View {
    process: Option<u64>,
    /// With when each was replaced.
    former: VecDeque<(u64, Running)>,
    sequence: u64,
    /// When this node first heard of the member.
    since: Running,
    spoke: Option<Running>,
    reachable: bool,
    /// When it was found cut off.
    lost: Running,
    sessions: HashMap<BrokerKey, Strength>,
    last_end: u64,
    answered: u64,
    voter: bool,
    member: bool,
}

impl View {
    fn new(since: Running) -> Self {
        Self {
            process: None,
            former: VecDeque::new(),
            sequence: 0,
            since,
            spoke: None,
            reachable: false,
            lost: Running::ZERO,
            sessions: HashMap::new(),
            last_end: 0,
            answered: 0,
            voter: false,
            member: false,
        }
    }

    fn change(&mut self, change: Change, effects: &mut Vec<Effect>) {
        let Change { broker, strength, cause } = change;
        match strength {
            Some(strength) => self.sessions.insert(broker.clone(), strength),
            None => self.sessions.remove(&broker),
        };
        effects.push(match cause {
            Cause::Opened => Effect::Appeared(broker),
            Cause::EndedByUs => Effect::EndedByNode(broker),
            Cause::NotFollowed => Effect::NotFollowed(broker),
            Cause::EndedByPeer(end) => {
                self.last_end = self.last_end.max(end.number);
                Effect::Ended(broker, end)
            }
        });
    }

    /// Replaces everything. What vanished without an end by the peer was ended by the node.
    fn replace(&mut self, now: Running, full: Full, effects: &mut Vec<Effect>) {
        let mut before = std::mem::take(&mut self.sessions);
        let ended: BTreeMap<_, _> =
            full.ended.into_iter().filter(|(_, end)| end.number > self.last_end).collect();
        for (broker, strength, age_ms) in full.sessions {
            let had = before.remove(&broker);
            if had < Some(strength) {
                effects.push(Effect::Appeared(broker.clone()));
            } else if had > Some(strength) && !ended.contains_key(&broker) {
                effects.push(Effect::EndedByNode(broker.clone()));
            }
            effects.push(Effect::Heard(broker.clone(), now.saturating_sub(Duration::from_millis(age_ms))));
            self.sessions.insert(broker, strength);
        }
        let vanished = before.into_keys().filter(|broker| !ended.contains_key(broker));
        effects.extend(vanished.map(Effect::EndedByNode));
        self.last_end = ended.values().map(|end| end.number).fold(self.last_end, u64::max);
        effects.extend(ended.into_iter().map(|(broker, end)| Effect::Ended(broker, end)));
    }

    /// Whether a report may be a late one of a process that is no more. Not for ever: reports of two processes that began
    /// one after the other can come in the wrong order.
    fn is_former(&self, now: Running, process: u64) -> bool {
        self.former.iter().any(|(former, at)| *former == process && now < *at + LATE_REPORTS)
    }

    fn unsure(&self, effects: &mut Vec<Effect>) {
        effects.extend(self.sessions.keys().cloned().map(Effect::Unsure));
    }

    /// What was heard there and not told is lost: all since its last report, at least.
    fn untold(&self, effects: &mut Vec<Effect>) {
        let since = self.spoke.unwrap_or(Running::ZERO);
        effects.extend(self.sessions.keys().map(|broker| Effect::Untold(broker.clone(), since)));
    }
}

/// All members' views, this node's own among them.
#[derive(Debug)]
pub(super) struct Views {
    node_id: NodeId,
    process: u64,
    views: BTreeMap<NodeId, View>,
}

impl Views {
    pub(super) fn new(node_id: NodeId, process: u64) -> Self {
        let own = View {
            process: Some(process),
            spoke: Some(Running::ZERO),
            reachable: true,
            ..View::new(Running::ZERO)
        };
        Self { node_id, process, views: BTreeMap::from([(node_id, own)]) }
    }

    /// Takes the members over: `(id, votes)`. One that left is as good as cut off.
    pub(super) fn members(&mut self, now: Running, members: &[(NodeId, bool)], effects: &mut Vec<Effect>) {
        for view in self.views.values_mut() {
            view.member = false;
        }
        for &(node, voter) in members {
            let view = self.views.entry(node).or_insert_with(|| View::new(now));
            (view.member, view.voter) = (true, voter);
        }
        let own = self.node_id;
        self.views.retain(|node, view| {
            let stays = view.member || view.reachable || *node == own;
            if !stays {
                view.unsure(effects);
                view.untold(effects);
            }
            stays
        });
    }

    /// A change of this node's own sessions.
    pub(super) fn own_change(&mut self, change: Change, effects: &mut Vec<Effect>) {
        if let Some(own) = self.views.get_mut(&self.node_id) {
            own.change(change, effects);
        }
    }

    /// Takes in what a report says of sessions. `false`: it does not follow the one before; nothing was taken, a full
    /// one is wanted.
    pub(super) fn report(
        &mut self,
        now: Running,
        from: NodeId,
        report: Report,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let view = self.views.entry(from).or_insert_with(|| View::new(now));
        let same_process = view.process == Some(report.process);
        let in_order = match &report.content {
            Content::Full(_) if same_process => report.sequence > view.sequence,
            Content::Full(_) => !view.is_former(now, report.process),
            // One that was away has to say when it heard whom: what waits in its sockets it may not have read yet.
            Content::Changes(_) => same_process && view.reachable && report.sequence == view.sequence + 1,
        };
        if !in_order {
            return false;
        }
        let back = !view.reachable;
        if back || !same_process {
            view.unsure(effects);
        }
        let since = view.spoke.unwrap_or(Running::ZERO);
        let held: Vec<_> = if back { view.sessions.keys().cloned().collect() } else { Vec::new() };
        if !same_process {
            view.untold(effects);
            view.former.extend(view.process.replace(report.process).map(|former| (former, now)));
            view.former.drain(..view.former.len().saturating_sub(FORMER_PROCESSES));
            view.sessions = HashMap::new();
            view.last_end = 0;
            view.answered = 0;
        }
        (view.sequence, view.spoke, view.reachable) = (report.sequence, Some(now), true);
        match report.content {
            Content::Changes(changes) => changes.into_iter().for_each(|change| view.change(change, effects)),
            Content::Full(full) => view.replace(now, full, effects),
        }
        // Of a session that is still there, the report tells when its broker was heard.
        let ended = held.into_iter().filter(|broker| same_process && !view.sessions.contains_key(broker));
        effects.extend(ended.map(|broker| Effect::Untold(broker, since)));
        if let Some(ask) = report.answering.filter(|ask| ask.process == self.process) {
            view.answered = view.answered.max(ask.number);
        }
        true
    }

    /// Finds nodes whose streams have been silent for too long.
    pub(super) fn sweep(&mut self, now: Running, effects: &mut Vec<Effect>) {
        for (node, view) in &mut self.views {
            if *node == self.node_id {
                view.spoke = Some(now);
            } else if view.reachable && view.spoke.is_none_or(|spoke| now > spoke + REACHABLE_FOR) {
                (view.reachable, view.lost) = (false, now);
                view.unsure(effects);
            }
        }
    }

    /// Since when a node with a session of the broker has been cut off; the last one of several.
    pub(super) fn cut_off_from(&self, broker: &BrokerKey) -> Option<Running> {
        let cut_off =
            self.views.values().filter(|view| !view.reachable && view.sessions.contains_key(broker));
        cut_off.map(|view| view.lost).max()
    }

    /// The other voters with the process of each that is reachable.
    pub(super) fn other_voters(&self) -> impl Iterator<Item = (NodeId, Option<u64>)> {
        let voters = self.other_members().filter(|(_, view)| view.voter);
        voters.map(|(node, view)| (node, view.process.filter(|_| view.reachable)))
    }

    /// Whether a majority of the voters, this node included, spoke within the last second.
    pub(super) fn has_quorum(&self) -> bool {
        let voters = self.views.values().filter(|view| view.member && view.voter);
        let (mut all, mut reachable) = (0, 0);
        for view in voters {
            all += 1;
            reachable += usize::from(view.reachable);
        }
        reachable * 2 > all
    }

    /// The strongest session of a broker at any reachable node.
    pub(super) fn strongest(&self, broker: &BrokerKey) -> Option<Strength> {
        let reachable = self.views.values().filter(|view| view.reachable);
        reachable.filter_map(|view| view.sessions.get(broker).copied()).max()
    }

    /// Whether all members that can be asked have answered a question. One that this process never heard is waited
    /// for a second after it was first known of.
    pub(super) fn answered(&self, now: Running, number: u64) -> bool {
        self.other_members().all(|(_, view)| {
            let new = view.spoke.is_none() && now < view.since + REACHABLE_FOR;
            !(view.reachable || new) || view.answered >= number
        })
    }

    /// The nodes to ask.
    pub(super) fn to_ask(&self) -> Vec<NodeId> {
        self.other_members()
            .filter(|(_, view)| view.reachable || view.spoke.is_none())
            .map(|(node, _)| node)
            .collect()
    }

    fn other_members(&self) -> impl Iterator<Item = (NodeId, &View)> {
        self.others().filter(|(_, view)| view.member)
    }

    fn others(&self) -> impl Iterator<Item = (NodeId, &View)> {
        self.views.iter().filter(|(node, _)| **node != self.node_id).map(|(node, view)| (*node, view))
    }

    /// Sessions of a broker by node, unreachable ones too.
    pub(super) fn sessions_of(&self, broker: &BrokerKey) -> Vec<(NodeId, Strength)> {
        let with = self.views.iter().filter_map(|(node, view)| Some((*node, *view.sessions.get(broker)?)));
        with.collect()
    }

    /// For the status: node, reachable, last spoke, brokers with a session.
    pub(super) fn peers(&self) -> impl Iterator<Item = (NodeId, bool, Option<Running>, usize)> {
        self.others().map(|(node, view)| (node, view.reachable, view.spoke, view.sessions.len()))
    }
}
