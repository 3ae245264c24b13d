//! The other nodes as the leader knows them from their reports.

use super::clock::Now;
use super::messages::{FullReport, Report, SessionReport};
use super::{NodeStatus, Strength};
use raft::NodeId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use storage::route_info::BrokerKey;

/// A node is reachable while its last report is younger than this. Also the longest wait for its full report and for
/// its answer to a probe.
pub(super) const REACHABLE_FOR: Duration = Duration::from_secs(1);
/// Former processes of a node whose late reports are recognised.
const FORMER_PROCESSES: usize = 8;
/// How late a report of a former process can arrive.
const LATE_REPORTS: Duration = Duration::from_secs(10);

/// A node with its sessions.
#[derive(Debug)]
pub(super) struct NodeView {
    process: Option<u64>,
    /// With the running time at which each was replaced.
    former: VecDeque<(u64, Duration)>,
    sequence: u64,
    /// Running time since which this leader knows of the node.
    since: Duration,
    last_report: Option<Duration>,
    reachable: bool,
    member: bool,
    voter: bool,
    sessions: BTreeMap<BrokerKey, Strength>,
    /// Disconnects that it has reported and this leader has not settled.
    disconnects: BTreeSet<BrokerKey>,
    /// Disconnects settled since the last answer to it.
    settled: Vec<BrokerKey>,
    probe_answered: u64,
}

impl NodeView {
    fn new(since: Duration) -> Self {
        Self {
            process: None,
            former: VecDeque::new(),
            sequence: 0,
            since,
            last_report: None,
            reachable: false,
            member: false,
            voter: false,
            sessions: BTreeMap::new(),
            disconnects: BTreeSet::new(),
            settled: Vec::new(),
            probe_answered: 0,
        }
    }

    /// Whether a report may be a late one of a former process. Not for ever: reports of two processes that began one
    /// after the other can arrive in the wrong order.
    fn is_former(&self, now: Duration, process: u64) -> bool {
        self.former.iter().any(|(former, at)| *former == process && now < *at + LATE_REPORTS)
    }

    /// Whether the leader need not wait for it: it has reported, or is unreachable.
    fn is_known(&self, now: Duration) -> bool {
        self.process.is_some() || now > self.since + REACHABLE_FOR
    }

    /// The strongest session of a broker there changed.
    pub(super) fn set_session(&mut self, broker: &BrokerKey, strength: Option<Strength>) {
        match strength {
            Some(strength) => self.sessions.insert(broker.clone(), strength),
            None => self.sessions.remove(broker),
        };
    }

    /// Takes all sessions of a full report over. Gives those of before.
    pub(super) fn replace(&mut self, full: &FullReport) -> BTreeMap<BrokerKey, Strength> {
        let sessions = full.sessions.iter().map(|(broker, strength, _)| (broker.clone(), *strength));
        std::mem::replace(&mut self.sessions, sessions.collect())
    }

    pub(super) fn reported_disconnect(&mut self, broker: BrokerKey) {
        self.disconnects.insert(broker);
    }

    /// What the next answer tells it.
    pub(super) fn take_settled(&mut self) -> Vec<BrokerKey> {
        std::mem::take(&mut self.settled)
    }
}

/// A report that follows the one before.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InOrder {
    /// Brokers with a session at the node's former process, which is no more.
    pub(super) lost: Vec<BrokerKey>,
    /// It is the node's first report to this leader.
    pub(super) first: bool,
}

/// All other nodes.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    views: BTreeMap<NodeId, NodeView>,
}

impl Nodes {
    /// The other members, `(id, votes)`. One that left counts until it is unreachable. Gives the brokers with a session
    /// at a node that is dropped.
    pub(super) fn set_members(&mut self, now: Now, members: &[(NodeId, bool)]) -> Vec<BrokerKey> {
        self.views.values_mut().for_each(|view| view.member = false);
        for &(node, voter) in members {
            let view = self.views.entry(node).or_insert_with(|| NodeView::new(now.running));
            (view.member, view.voter) = (true, voter);
        }
        let dropped = self.views.extract_if(.., |_, view| !view.member && !view.reachable);
        dropped.flat_map(|(_, view)| view.sessions.into_keys()).collect()
    }

    /// Whether a report follows the one before. If so, its sender counts as reachable; what it says is still to be
    /// taken.
    pub(super) fn accept(&mut self, now: Now, from: NodeId, report: &Report, term: u64) -> Option<InOrder> {
        let view = self.views.entry(from).or_insert_with(|| NodeView::new(now.running));
        let same_process = view.process == Some(report.process);
        let in_order = match &report.sessions {
            SessionReport::Full(_) if same_process => report.sequence > view.sequence,
            SessionReport::Full(_) => !view.is_former(now.running, report.process),
            // A node that was unreachable has to say when it heard its brokers: it may not have read yet what waits in
            // its sockets.
            SessionReport::Incremental(_) => {
                same_process && view.reachable && report.sequence == view.sequence + 1
            }
        };
        if !in_order {
            return None;
        }
        let (mut lost, first) = (Vec::new(), view.process.is_none());
        if !same_process {
            lost = std::mem::take(&mut view.sessions).into_keys().collect();
            view.disconnects.clear();
            view.settled.clear();
            view.probe_answered = 0;
            view.former.extend(view.process.replace(report.process).map(|former| (former, now.running)));
            view.former.drain(..view.former.len().saturating_sub(FORMER_PROCESSES));
        }
        (view.sequence, view.last_report, view.reachable) = (report.sequence, Some(now.running), true);
        if let Some(probe) = report.probe.filter(|probe| probe.term == term) {
            view.probe_answered = view.probe_answered.max(probe.number);
        }
        Some(InOrder { lost, first })
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> Option<&mut NodeView> {
        self.views.get_mut(&node)
    }

    /// The strongest session of a broker at a node.
    pub(super) fn session(&self, node: NodeId, broker: &BrokerKey) -> Option<Strength> {
        self.views.get(&node)?.sessions.get(broker).copied()
    }

    /// Finds nodes whose reports have ceased. Gives the brokers with a session there.
    pub(super) fn sweep(&mut self, now: Now) -> Vec<BrokerKey> {
        let mut lost = Vec::new();
        for view in self.views.values_mut() {
            if view.reachable && view.last_report.is_none_or(|at| now.running > at + REACHABLE_FOR) {
                view.reachable = false;
                lost.extend(view.sessions.keys().cloned());
            }
        }
        lost
    }

    /// Whether each voter has sent its full report or is unreachable.
    pub(super) fn all_voters_known(&self, now: Now) -> bool {
        self.views.values().filter(|view| view.member && view.voter).all(|view| view.is_known(now.running))
    }

    /// The strongest session of a broker at any reachable node.
    pub(super) fn strongest(&self, broker: &BrokerKey) -> Option<Strength> {
        let reachable = self.views.values().filter(|view| view.reachable);
        reachable.filter_map(|view| view.sessions.get(broker).copied()).max()
    }

    /// Whether all members that can be probed have answered a probe. One that has not reported to this leader yet is
    /// waited for a second after it was first known of.
    pub(super) fn answered(&self, now: Now, number: u64) -> bool {
        self.views.values().filter(|view| view.member).all(|view| {
            let awaited = view.reachable || !view.is_known(now.running);
            !awaited || view.probe_answered >= number
        })
    }

    /// A disconnect is settled: the nodes that have reported it learn that with their next answer.
    pub(super) fn settle(&mut self, broker: &BrokerKey) {
        for view in self.views.values_mut() {
            if view.disconnects.remove(broker) {
                view.settled.push(broker.clone());
            }
        }
    }

    /// Forgets reported disconnects that `keep` does not want: their nodes drop them by themselves.
    pub(super) fn retain_disconnects(&mut self, keep: impl Fn(&BrokerKey) -> bool) {
        self.views.values_mut().for_each(|view| view.disconnects.retain(&keep));
    }

    /// The nodes as the status shows them.
    pub(super) fn status(&self, now: Now) -> impl Iterator<Item = NodeStatus> {
        self.views.iter().map(move |(node, view)| NodeStatus {
            node: *node,
            reachable: view.reachable,
            since_report: view.last_report.map(|at| now.running.saturating_sub(at)),
            sessions: view.sessions.len(),
        })
    }
}
