//! All of liveness as one plain structure: every input comes with the moment at which it came. Nothing here waits, reads a
//! clock or sends anything.

use super::clock::{Contact, InServiceClock, Now, PING_AFTER, millis};
use super::guard::Guard;
use super::leader::{Decision, Leader, Leading};
use super::messages::{
    Message, Probe, Reply, Report, ReportAnswer, SessionChange, SessionReport, TableStatus,
};
use super::removals::{Applied, ProposalEnd};
use super::reporter::{Reporter, answered};
use super::sessions::{Keyed, Sessions};
use super::{
    ClosedBy, Counters, LivenessOptions, LivenessStatus, RegistrationStatus, SessionId, SessionsFull,
    Strength, Totals,
};
use raft::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use storage::route_info::BrokerKey;
use storage::{Position, RouteInfo};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Between two looks at what needs no hurry.
const REVIEW_EVERY: Duration = Duration::from_secs(1);

/// Tasks that the caller must wake.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Wakes {
    /// Those that send messages.
    pub(super) senders: bool,
    /// The one that decides.
    pub(super) decider: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Tracker {
    node_id: NodeId,
    keyed: Keyed,
    clock: InServiceClock,
    sessions: Sessions,
    reporter: Reporter,
    guard: Guard,
    /// While this node leads.
    leading: Option<Leading>,
    /// All members, `(id, votes)`.
    members: Vec<(NodeId, bool)>,
    contact: Contact,
    /// The last probe that was sent to each node.
    probed: BTreeMap<NodeId, Probe>,
    term: u64,
    /// Index up to which liveness follows the table.
    followed: u64,
    reviewed: Duration,
    counters: Counters,
    wakes: Wakes,
}

impl Tracker {
    pub(super) fn new(options: &LivenessOptions, process: u64, now: Instant) -> Self {
        let keyed = Keyed(process);
        Self {
            node_id: options.node_id,
            keyed,
            clock: InServiceClock::new(now),
            sessions: Sessions::new(keyed, options.sessions_max),
            reporter: Reporter::new(process),
            guard: Guard::new(options),
            leading: None,
            members: Vec::new(),
            contact: Contact::default(),
            probed: BTreeMap::new(),
            term: 0,
            followed: 0,
            reviewed: Duration::ZERO,
            counters: Counters::default(),
            wakes: Wakes::default(),
        }
    }

    /// The tasks to wake since the last call.
    pub(super) fn take_wakes(&mut self) -> Wakes {
        std::mem::take(&mut self.wakes)
    }

    /// The members, `(id, votes)`, this node among them when it is one.
    pub(super) fn set_members(&mut self, now: Instant, members: &[(NodeId, bool)]) {
        let now = self.clock.advance(now);
        self.members = members.to_vec();
        let others = self.others();
        if let Some(leading) = &mut self.leading {
            leading.set_members(now, &others);
        }
        self.wakes.senders = true;
    }

    fn others(&self) -> Vec<(NodeId, bool)> {
        self.members.iter().copied().filter(|(node, _)| *node != self.node_id).collect()
    }

    /// The leadership changed: the term, its leader when known, whether this node leads it.
    pub(super) fn set_leadership(&mut self, term: u64, leader: Option<NodeId>, leads: bool) {
        if self.leading.as_ref().is_some_and(|leading| !leads || leading.term != term) {
            self.leading = None;
        }
        if term != self.term || leader != self.reporter.leader() {
            self.term = self.term.max(term);
            self.reporter.begin(leader);
        }
        self.wakes = Wakes { senders: true, decider: true };
    }

    /// This node leads with a valid quorum lease at this moment.
    pub(super) fn lead(&mut self, now: Instant, leader: &Leader<'_>) {
        let now = self.clock.advance(now);
        self.clock.reach_leader();
        if self.leading.as_ref().is_none_or(|leading| leading.term != leader.term) && !self.members.is_empty()
        {
            let others = self.others();
            self.leading = Some(Leading::begin(now, self.keyed, leader, &others, &mut self.sessions));
            self.probed.clear();
        }
    }

    /// A broker was heard on a connection of this node; after a REGISTER, `incarnation` is what its table has.
    pub(super) fn heartbeat(
        &mut self,
        now: Instant,
        session: SessionId,
        broker: &BrokerKey,
        strength: Strength,
        incarnation: Option<Position>,
    ) -> Result<(), SessionsFull> {
        let now = self.clock.advance(now);
        let change = self.sessions.heartbeat(now.in_service, session, broker, strength, incarnation)?;
        self.counters.heartbeats += 1;
        if let Some(change) = change {
            self.changed(now, change);
        }
        if let Some(leading) = &mut self.leading {
            let strength = self.sessions.strength(broker);
            leading.heartbeat(broker, now.in_service, strength, &mut self.sessions);
        }
        Ok(())
    }

    /// A connection of this node is over.
    pub(super) fn close(&mut self, now: Instant, session: SessionId, by: ClosedBy) {
        let now = self.clock.advance(now);
        for change in self.sessions.close(session, by, self.clock.trust_disconnects_after()) {
            self.wakes.senders |= matches!(change, SessionChange::Ended(_, None, _));
            self.changed(now, change);
        }
    }

    /// A session of this node changed.
    fn changed(&mut self, now: Now, change: SessionChange) {
        match &mut self.leading {
            Some(leading) => {
                leading.own_change(now, &change, &mut self.sessions);
                self.wakes.decider |= !leading.disconnects.is_empty();
            }
            None => self.reporter.push(change),
        }
    }

    /// A REGISTER waits for the registration status of its broker, which this node has just heard.
    pub(super) fn confirm(
        &mut self,
        now: Instant,
        broker: &BrokerKey,
        leader: Option<&Leader<'_>>,
    ) -> Result<RegistrationStatus, oneshot::Receiver<RegistrationStatus>> {
        self.clock.advance(now);
        if let Some(status) = leader.and_then(|leader| self.status_here(leader, broker)) {
            return Ok(status);
        }
        self.wakes.senders = true;
        Err(self.reporter.confirm(broker))
    }

    /// As this leader knows it; `None` while a removal is proposed, and while this node does not lead.
    fn status_here(&self, leader: &Leader<'_>, broker: &BrokerKey) -> Option<RegistrationStatus> {
        let status = self.leading.as_ref()?.status(leader, broker);
        answered(status, leader.term, leader.applied())
    }

    /// Whether the leader has no registration of a broker, as far as this node knows without asking.
    pub(super) fn is_not_registered(&self, broker: &BrokerKey, leader: Option<&Leader<'_>>) -> bool {
        match (leader, &self.leading) {
            (Some(leader), Some(leading)) => {
                !matches!(leading.status(leader, broker), TableStatus::Registered(_))
            }
            _ => self.sessions.is_not_registered(broker),
        }
    }

    /// The next message to a node, when one is due; otherwise how long to wait for one.
    pub(super) fn poll(&mut self, now: Instant, to: NodeId) -> Result<Message, Duration> {
        let now = self.clock.advance(now);
        if let Some(report) = self.reporter.poll(now, to, &mut self.sessions) {
            self.counters.reports_sent += 1;
            self.counters.full_reports_sent += u64::from(matches!(report.sessions, SessionReport::Full(_)));
            return Ok(Message::Report(report));
        }
        if let Some(probe) = self.leading.as_ref().and_then(|leading| leading.probe)
            && self.probed.insert(to, probe) != Some(probe)
        {
            return Ok(Message::Probe(probe));
        }
        let is_leader = self.reporter.leader() == Some(to);
        if !is_leader
            && self.members.contains(&(to, true))
            && !self.clock.reached_leader_within(PING_AFTER)
            && self.contact.ping(now, to)
        {
            return Ok(Message::Ping);
        }
        // Without contact this node is woken at each tick.
        Err(if is_leader { self.reporter.wait() } else { REVIEW_EVERY })
    }

    /// A node answered a message.
    pub(super) fn answered(&mut self, now: Instant, from: NodeId, reply: Reply) {
        let now = self.clock.advance(now);
        self.contact.answered(now, from);
        if self.contact.has_majority(now, self.node_id, &self.members) {
            self.clock.reach_majority();
        }
        match reply {
            Reply::Report(ReportAnswer { accepted: true, leader }) => {
                let leader = leader.filter(|answer| answer.term >= self.term);
                if leader.is_some() {
                    self.clock.reach_leader();
                }
                self.reporter.accepted(from, leader, &mut self.sessions);
            }
            // A report may be refused whole, by a node that does not understand it.
            Reply::Report(ReportAnswer { accepted: false, .. }) | Reply::Refused => {
                self.reporter.failed(now, from);
            }
            Reply::Received | Reply::IdleTimes(_) => {}
        }
    }

    /// A message got no answer. Probes and pings are sent again soon.
    pub(super) fn failed(&mut self, now: Instant, to: NodeId, message: &Message) {
        let now = self.clock.advance(now);
        if matches!(message, Message::Report(_)) {
            self.counters.reports_failed += 1;
            self.reporter.failed(now, to);
        }
    }

    /// A message of another node.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        from: NodeId,
        message: Message,
        leader: Option<&Leader<'_>>,
    ) -> Reply {
        let at = now;
        let now = self.clock.advance(now);
        match message {
            Message::Report(report) => Reply::Report(self.receive_report(now, from, &report, leader)),
            Message::Probe(probe) => {
                self.reporter.answer_probe(from, probe);
                self.wakes.senders = true;
                Reply::Received
            }
            Message::Ping => Reply::Received,
            Message::IdleTimes => match &self.leading {
                Some(_) if leader.is_some() => Reply::IdleTimes(self.all_idle(at).into_iter().collect()),
                _ => Reply::Refused,
            },
        }
    }

    fn receive_report(
        &mut self,
        now: Now,
        from: NodeId,
        report: &Report,
        leader: Option<&Leader<'_>>,
    ) -> ReportAnswer {
        self.counters.reports_received += 1;
        let Self { leading: Some(leading), sessions, .. } = self else {
            return ReportAnswer { accepted: false, leader: None };
        };
        if from == self.node_id || !leading.receive(now, from, report, sessions) {
            self.counters.report_gaps += 1;
            return ReportAnswer { accepted: false, leader: None };
        }
        self.wakes.decider |= !leading.disconnects.is_empty();
        let leader = leader.map(|leader| leading.answer(from, report, leader));
        ReportAnswer { accepted: true, leader }
    }

    /// An entry was applied: follows the table. Gives the connections to close, since a broker of theirs expired.
    pub(super) fn applied(
        &mut self,
        now: Instant,
        index: u64,
        applied: &Applied,
        table: &RouteInfo,
    ) -> BTreeSet<SessionId> {
        let in_service = self.clock.advance(now).in_service;
        // Counted before the leases follow the table.
        let guarded = self.guarded(applied);
        if let Some(leading) = &mut self.leading {
            let live = |broker: &BrokerKey| table.live(broker);
            applied.touched.iter().for_each(|key| leading.leases.follow(in_service, key, live(key)));
        }
        let removed = applied.touched.iter().filter(|key| table.live(key).is_none());
        removed.for_each(|key| self.sessions.forget_departed(key));
        self.counters.expired += applied.expired.len() as u64;
        self.counters.disconnected += applied.disconnected.len() as u64;
        self.followed(index, table);
        if guarded > 0 {
            let population = match &self.leading {
                Some(leading) => leading.population(&self.guard),
                None => table.live_brokers().len(),
            };
            self.guard.applied(in_service, guarded, population);
        }
        if let Some(active) = applied.guard {
            self.guard.follow(in_service, active);
        }
        let gone = applied.expired.iter().filter(|broker| table.live(broker).is_none());
        gone.flat_map(|broker| self.sessions.connections_of(broker)).collect()
    }

    /// How many of the brokers that left by expiry or disconnect count for the guard.
    fn guarded(&self, applied: &Applied) -> usize {
        let gone = applied.expired.iter().chain(&applied.disconnected);
        match &self.leading {
            Some(leading) => leading.count_guarded(&self.guard, gone),
            // Only the leader knows which brokers were alive since the guard began.
            None if self.guard.since().is_some() => 0,
            None => gone.count(),
        }
    }

    /// The whole table, when single entries were missed, and at the start.
    pub(super) fn follow_all(&mut self, now: Instant, table: &RouteInfo) {
        let in_service = self.clock.advance(now).in_service;
        match &mut self.leading {
            None => self.guard.follow(in_service, table.eviction_guard().is_some()),
            Some(leading) => {
                let before: Vec<BrokerKey> = leading.leases.iter().map(|(key, _)| key.clone()).collect();
                let all = before.iter().chain(table.live_brokers().map(|(key, _)| key));
                all.for_each(|key| leading.leases.follow(in_service, key, table.live(key)));
            }
        }
        self.followed(table.revision().map_or(0, |id| id.index), table);
    }

    /// Everything up to this index was followed.
    fn followed(&mut self, index: u64, table: &RouteInfo) {
        self.followed = self.followed.max(index);
        if let Some(leading) = &mut self.leading {
            leading.removals.applied(index);
        }
        let followed = self.followed;
        self.sessions.retain_disconnects(|key, at| match table.live(key) {
            Some(live) => live.incarnation <= at,
            None => followed < at.index,
        });
    }

    /// Time goes on. At least every [`super::clock::LATENESS_MAX`], or that counts as a pause.
    pub(super) fn tick(&mut self, now: Instant, leader: Option<&Leader<'_>>) {
        let now = self.clock.advance(now);
        self.wakes.senders |= !self.clock.reached_leader_within(PING_AFTER);
        if self.leading.is_some() || self.reporter.leader().is_none() {
            self.sessions.forget_unreported();
        }
        let Some(leading) = &mut self.leading else { return };
        leading.tick(now);
        if now.running >= self.reviewed + REVIEW_EVERY {
            self.reviewed = now.running;
            let any = |since| leading.leases.iter().any(|(_, lease)| lease.alive() <= since);
            self.guard.review(any);
        }
        let Some(leader) = leader else { return };
        // Requests that waited for another leader, or for the end of a removal.
        let Self { reporter, leading: Some(leading), .. } = self else { return };
        reporter
            .confirm_here(|broker| answered(leading.status(leader, broker), leader.term, leader.applied()));
    }

    /// Decides, as the leader that this node is at this moment.
    pub(super) fn decide(&mut self, now: Instant, leader: &Leader<'_>) -> Decision {
        let now = self.clock.advance(now);
        let Self { leading: Some(leading), guard, sessions, .. } = self else { return Decision::default() };
        let before = leading.probe;
        let decision = leading.decide(now, leader, guard, sessions);
        self.wakes.senders |= leading.probe != before;
        decision
    }

    /// How the proposal of removals ended.
    pub(super) fn proposed(&mut self, now: Instant, term: u64, end: ProposalEnd) {
        let now = self.clock.advance(now);
        self.counters.removals_retried += u64::from(!matches!(end, ProposalEnd::Applied(_)));
        if let Some(leading) = self.leading.as_mut().filter(|leading| leading.term == term) {
            leading.removals.ended(now.running, end);
            leading.removals.applied(self.followed);
        }
        self.wakes.decider = true;
    }

    /// How the proposal of the guard ended.
    pub(super) fn guard_proposed(&mut self, now: Instant, term: u64, end: ProposalEnd) {
        let now = self.clock.advance(now);
        if let Some(leading) = self.leading.as_mut().filter(|leading| leading.term == term) {
            leading.guard_proposed(now, end);
        }
    }

    /// How long a broker has been idle: everywhere at the leader, at this node otherwise.
    pub(super) fn idle(&mut self, now: Instant, broker: &BrokerKey) -> Option<Duration> {
        let now = self.clock.advance(now);
        let since = match &self.leading {
            Some(leading) => leading.leases.get(broker)?.idle_since(),
            None => self.sessions.last_heartbeat(broker)?,
        };
        Some(now.in_service.saturating_sub(since))
    }

    /// The same for all brokers, milliseconds.
    pub(super) fn all_idle(&mut self, now: Instant) -> BTreeMap<BrokerKey, u64> {
        let now = self.clock.advance(now);
        let idle = |(key, since): (&BrokerKey, Duration)| {
            (key.clone(), millis(now.in_service.saturating_sub(since)))
        };
        match &self.leading {
            Some(leading) => {
                leading.leases.iter().map(|(key, lease)| idle((key, lease.idle_since()))).collect()
            }
            None => self.sessions.iter().map(idle).collect(),
        }
    }

    /// The leader to ask for idle times, when it is another node.
    pub(super) fn other_leader(&self) -> Option<NodeId> {
        self.reporter.leader().filter(|leader| *leader != self.node_id && self.leading.is_none())
    }

    pub(super) fn status(&mut self, now: Instant) -> LivenessStatus {
        let Totals { guard, counters } = self.totals(now);
        let now = self.clock.advance(now);
        let nodes = self.leading.iter().flat_map(|leading| leading.nodes.status(now));
        LivenessStatus { nodes: nodes.collect(), guard, counters }
    }

    /// Guard and counters. Looks at the brokers only while the guard is active.
    pub(super) fn totals(&mut self, now: Instant) -> Totals {
        let now = self.clock.advance(now);
        let leading = self.leading.as_ref().filter(|_| self.guard.since().is_some());
        let held = leading.map_or(0, |leading| leading.count_held(now, &self.guard));
        let (pauses, sessions_refused) = (self.clock.pauses(), self.sessions.refused());
        let counters = Counters { pauses, sessions_refused, ..self.counters };
        Totals { guard: self.guard.status(now.in_service, held), counters }
    }
}
