//! What only the leader of a term keeps: the other nodes' sessions, the leases, pending disconnects, proposed removals. It
//! decides which brokers are gone.

use super::Strength;
use super::clock::{Now, millis};
use super::disconnects::{Disconnects, Verdict};
use super::guard::{Candidate, Guard};
use super::leases::{Lease, Leases};
use super::messages::{
    End, FullReport, LeaderAnswer, Probe, Report, SessionChange, SessionReport, TableStatus,
};
use super::nodes::{NodeView, Nodes};
use super::removals::{PROPOSE_AGAIN_AFTER, ProposalEnd, Removals};
use super::sessions::{Keyed, Sessions};
use raft::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;
use storage::command::{Cause, Removal};
use storage::route_info::BrokerKey;
use storage::{Position, RouteInfo};

/// Brokers in one removal entry; the others follow in the next.
pub(super) const REMOVALS_MAX: usize = 4_096;

/// What a node knows that has applied an entry of its own term and has a valid quorum lease. To ensure correctness, it
/// is taken while the tracker is locked: the end of a removal is noted after it is visible in the table.
pub(super) struct Leader<'a> {
    pub(super) term: u64,
    pub(super) table: &'a RouteInfo,
}

impl Leader<'_> {
    /// Its applied index.
    pub(super) fn applied(&self) -> u64 {
        self.table.revision().map_or(0, |id| id.index)
    }

    /// The registration of a broker in its table.
    pub(super) fn incarnation(&self, broker: &BrokerKey) -> Option<Position> {
        self.table.live(broker).map(|live| live.incarnation)
    }
}

/// What the leader must do now.
#[derive(Debug, Default)]
pub(super) struct Decision {
    /// Brokers to remove with one entry, if any.
    pub(super) removals: Vec<Removal>,
    /// The guard to propose: whether it is active from now on.
    pub(super) guard: Option<bool>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Leading {
    pub(super) term: u64,
    pub(super) nodes: Nodes,
    pub(super) leases: Leases,
    pub(super) disconnects: Disconnects,
    pub(super) removals: Removals,
    /// The probe that was sent last.
    pub(super) probe: Option<Probe>,
    /// Each voter has sent its full report or was unreachable: this leader may decide.
    decides: bool,
    /// A change of the guard is proposed.
    guard_is_proposed: bool,
    /// Running time before which the guard is not proposed again.
    guard_not_before: Duration,
}

impl Leading {
    /// A term begins. This node's own sessions are known at once, those of the others with their full reports.
    pub(super) fn begin(
        now: Now,
        keyed: Keyed,
        leader: &Leader<'_>,
        others: &[(NodeId, bool)],
        sessions: &mut Sessions,
    ) -> Self {
        let mut leading = Self {
            term: leader.term,
            nodes: Nodes::default(),
            leases: Leases::new(keyed, now.in_service, leader.table.live_brokers()),
            disconnects: Disconnects::new(leader.term),
            removals: Removals::default(),
            probe: None,
            decides: false,
            guard_is_proposed: false,
            guard_not_before: Duration::ZERO,
        };
        leading.nodes.set_members(now, others);
        sessions.iter().for_each(|(broker, last_heartbeat)| leading.leases.renew(broker, last_heartbeat));
        sessions.disconnects().into_iter().for_each(|(broker, at)| leading.disconnects.set(now, broker, at));
        leading
    }

    /// The other members.
    pub(super) fn set_members(&mut self, now: Now, others: &[(NodeId, bool)]) {
        let lost = self.nodes.set_members(now, others);
        self.extend(now, &lost);
    }

    /// Time goes on: nodes may have become unreachable.
    pub(super) fn tick(&mut self, now: Now) {
        let lost = self.nodes.sweep(now);
        self.extend(now, &lost);
    }

    fn extend(&mut self, now: Now, brokers: &[BrokerKey]) {
        brokers.iter().for_each(|broker| self.leases.extend(now.in_service, broker));
    }

    /// A session of this node changed.
    pub(super) fn own_change(&mut self, now: Now, change: &SessionChange, sessions: &mut Sessions) {
        match change {
            SessionChange::Opened(broker, strength) => self.opened(broker, *strength, sessions),
            SessionChange::Ended(broker, _, end) => self.ended(now, broker, *end, sessions),
        }
    }

    /// A broker was heard then, at a node where its strongest session is this.
    pub(super) fn heartbeat(
        &mut self,
        broker: &BrokerKey,
        at: Duration,
        strength: Option<Strength>,
        sessions: &mut Sessions,
    ) {
        self.leases.renew(broker, at);
        if strength == Some(Strength::Strong) && self.disconnects.is_settled_by(broker, at) {
            self.settle(broker, sessions);
        }
    }

    /// Takes a report. `false`: it does not follow the one before, and nothing was taken.
    pub(super) fn receive(
        &mut self,
        now: Now,
        from: NodeId,
        report: &Report,
        sessions: &mut Sessions,
    ) -> bool {
        let Some(in_order) = self.nodes.accept(now, from, report, self.term) else { return false };
        self.extend(now, &in_order.lost);
        match &report.sessions {
            SessionReport::Incremental(changes) => {
                changes.iter().for_each(|change| self.change(now, from, change, sessions));
            }
            SessionReport::Full(full) => self.replace(now, from, full, in_order.first, sessions),
        }
        for (broker, idle_ms) in &report.heartbeats {
            let at = now.in_service.saturating_sub(Duration::from_millis(*idle_ms));
            let strength = self.nodes.session(from, broker);
            self.heartbeat(broker, at, strength, sessions);
        }
        true
    }

    fn change(&mut self, now: Now, from: NodeId, change: &SessionChange, sessions: &mut Sessions) {
        let Some(view) = self.nodes.get_mut(from) else { return };
        match change {
            SessionChange::Opened(broker, strength) => {
                view.set_session(broker, Some(*strength));
                self.leases.renew(broker, now.in_service);
                self.opened(broker, *strength, sessions);
            }
            SessionChange::Ended(broker, left, end) => {
                view.set_session(broker, *left);
                if matches!(end, End::Disconnect(_)) {
                    view.reported_disconnect(broker.clone());
                }
                self.ended(now, broker, *end, sessions);
            }
        }
    }

    /// A full report replaces everything. A session that vanished, and not by the peer, was ended by the node. When the
    /// sessions of the `first` report opened is not known: they only hold their brokers.
    fn replace(&mut self, now: Now, from: NodeId, full: &FullReport, first: bool, sessions: &mut Sessions) {
        let Some(view) = self.nodes.get_mut(from) else { return };
        let mut before = view.replace(full);
        full.disconnects.iter().for_each(|(broker, _)| view.reported_disconnect(broker.clone()));
        let disconnects: BTreeMap<_, _> = full.disconnects.iter().cloned().collect();
        for (broker, strength, idle_ms) in &full.sessions {
            let had = before.remove(broker);
            self.leases.renew(broker, now.in_service.saturating_sub(Duration::from_millis(*idle_ms)));
            if had < Some(*strength) && !first {
                self.opened(broker, *strength, sessions);
            } else if had > Some(*strength) && !disconnects.contains_key(broker) {
                self.ended(now, broker, End::ByNode, sessions);
            }
        }
        for (broker, idle_ms, by_peer) in &full.departed {
            self.leases.renew(broker, now.in_service.saturating_sub(Duration::from_millis(*idle_ms)));
            if *by_peer && before.remove(broker).is_some() {
                self.disconnects.probe_again(broker);
            }
        }
        for broker in before.into_keys().filter(|broker| !disconnects.contains_key(broker)) {
            self.ended(now, &broker, End::ByNode, sessions);
        }
        for (broker, incarnation) in disconnects {
            self.disconnects.set(now, broker, incarnation);
        }
    }

    /// A weak session only holds its broker: it may have opened before the disconnect, and be reported after it.
    fn opened(&mut self, broker: &BrokerKey, strength: Strength, sessions: &mut Sessions) {
        if strength == Strength::Strong {
            self.settle(broker, sessions);
        }
    }

    fn ended(&mut self, now: Now, broker: &BrokerKey, end: End, sessions: &mut Sessions) {
        match end {
            End::ByNode => self.settle(broker, sessions),
            End::ByPeer => self.disconnects.probe_again(broker),
            // Other sessions only hold it: they may end at the same moment.
            End::Disconnect(incarnation) => self.disconnects.set(now, broker.clone(), incarnation),
        }
    }

    /// A disconnect does not matter any more: this node and the others drop it.
    fn settle(&mut self, broker: &BrokerKey, sessions: &mut Sessions) {
        self.disconnects.remove(broker);
        self.nodes.settle(broker);
        sessions.settle(broker);
    }

    /// The strongest session of a broker at this node or a reachable one.
    fn strongest(&self, broker: &BrokerKey, sessions: &Sessions) -> Option<Strength> {
        sessions.strength(broker).max(self.nodes.strongest(broker))
    }

    /// The status of a broker in this leader's table.
    pub(super) fn status(&self, leader: &Leader<'_>, broker: &BrokerKey) -> TableStatus {
        match leader.incarnation(broker) {
            None => TableStatus::NotRegistered,
            Some(at) if self.removals.contains(broker, at) => TableStatus::Removing,
            Some(at) => TableStatus::Registered(at),
        }
    }

    /// The answer to a report that was taken.
    pub(super) fn answer(&mut self, from: NodeId, report: &Report, leader: &Leader<'_>) -> LeaderAnswer {
        let status = |broker| (broker, self.status(leader, broker));
        let confirmed = report.confirm.iter().map(status);
        // Brokers that the answer does not mention are registered: nearly all of those that were heard. A lease shows
        // that without a look at the table.
        let nothing_is_proposed = self.removals.brokers().len() == 0;
        let registered = |broker| nothing_is_proposed && self.leases.get(broker).is_some();
        let heartbeats = report.heartbeats.iter().map(|(broker, _)| broker);
        let unregistered = heartbeats.filter(|broker| !registered(broker)).map(status);
        let unregistered = unregistered.filter(|(_, status)| !matches!(status, TableStatus::Registered(_)));
        let statuses = confirmed.chain(unregistered);
        let statuses = statuses.map(|(broker, status)| (broker.clone(), status)).collect();
        let settled = self.nodes.get_mut(from).map(NodeView::take_settled).unwrap_or_default();
        LeaderAnswer { term: self.term, applied: leader.applied(), statuses, settled }
    }

    /// Decides with a valid quorum lease. What is decided follows from what is known now, so a decision whose proposal
    /// failed is made again.
    pub(super) fn decide(
        &mut self,
        now: Now,
        leader: &Leader<'_>,
        guard: &mut Guard,
        sessions: &Sessions,
    ) -> Decision {
        if !self.decides {
            if !self.nodes.all_voters_known(now) {
                return Decision::default();
            }
            self.decides = true;
            self.leases.extend_all(now.in_service);
        }
        let removals = self.decide_removals(now, leader, guard, sessions);
        Decision { removals, guard: self.decide_guard(now, leader, guard) }
    }

    fn decide_removals(
        &mut self,
        now: Now,
        leader: &Leader<'_>,
        guard: &mut Guard,
        sessions: &Sessions,
    ) -> Vec<Removal> {
        let mut gone = self.disconnected_now(now, leader, guard, sessions);
        if !self.removals.may_propose(now.running) {
            return Vec::new();
        }
        gone.extend(self.expired_now(now, leader));
        let candidates: Vec<_> = gone.iter().filter_map(|(key, at)| self.candidate(key, *at)).collect();
        if candidates.is_empty() {
            return Vec::new();
        }
        let population = self.population(guard);
        let proposed = self.count_guarded(guard, self.removals.brokers());
        let (mut go, held) = guard.admit(now.in_service, population, proposed, candidates);
        for candidate in held.iter().filter(|candidate| candidate.deadline <= now.in_service) {
            self.leases.postpone(&candidate.key, guard.kept_until(candidate));
        }
        go.truncate(REMOVALS_MAX);
        let removals: Vec<_> = go.iter().filter_map(|gone| self.removal(now, gone)).collect();
        if !removals.is_empty() {
            self.removals.propose(go.into_iter().map(|gone| (gone.key, gone.incarnation)));
        }
        removals
    }

    /// How many of these brokers count for the guard.
    pub(super) fn count_guarded<'a>(
        &self,
        guard: &Guard,
        brokers: impl Iterator<Item = &'a BrokerKey>,
    ) -> usize {
        let leases = brokers.filter_map(|key| self.leases.get(key));
        leases.filter(|lease| guard.counts(lease.alive())).count()
    }

    /// How many of all brokers count for the guard.
    pub(super) fn population(&self, guard: &Guard) -> usize {
        self.leases.iter().filter(|(_, lease)| guard.counts(lease.alive())).count()
    }

    /// Brokers idle for longer than their timeout, as of the registration that the leases follow.
    fn expired_now(&mut self, now: Now, leader: &Leader<'_>) -> Vec<(BrokerKey, Position)> {
        let expired = self.leases.expired(now.in_service).into_iter();
        let current = expired.filter_map(|key| {
            let at = self.leases.get(&key)?.incarnation;
            let is_current = leader.incarnation(&key) == Some(at) && !self.removals.contains(&key, at);
            is_current.then_some((key, at))
        });
        current.collect()
    }

    /// Brokers with a pending disconnect, no session at any reachable node, and an answered probe.
    fn disconnected_now(
        &mut self,
        now: Now,
        leader: &Leader<'_>,
        guard: &Guard,
        sessions: &Sessions,
    ) -> BTreeMap<BrokerKey, Position> {
        let mut disconnects = std::mem::take(&mut self.disconnects);
        let verdict = |key: &BrokerKey, pending: Position| match leader.incarnation(key) {
            // Removed, or the table here is not yet as far as where the session ended.
            None if leader.applied() < pending.index => Verdict::Keep,
            None => Verdict::Drop,
            Some(at) if at > pending => Verdict::Drop,
            Some(at) if at < pending || self.removals.contains(key, at) => Verdict::Keep,
            Some(_) if self.strongest(key, sessions).is_some() => Verdict::Hold,
            // The guard keeps it: it goes by its timeout, whatever the other nodes answer.
            Some(_) if self.leases.get(key).is_some_and(|lease| !guard.counts(lease.alive())) => {
                Verdict::Keep
            }
            Some(_) => Verdict::Probe,
        };
        let (gone, probe) = disconnects.decide(now, |number| self.nodes.answered(now, number), verdict);
        self.disconnects = disconnects;
        let Self { disconnects, nodes, .. } = self;
        nodes.retain_disconnects(|broker| disconnects.contains(broker));
        self.probe = probe.or(self.probe);
        gone
    }

    /// `None` while the leases do not yet follow the registration that the leader's table has.
    fn candidate(&self, key: &BrokerKey, incarnation: Position) -> Option<Candidate> {
        let lease = self.leases.get(key).filter(|lease| lease.incarnation == incarnation)?;
        let (alive, idle_since, deadline) = (lease.alive(), lease.idle_since(), lease.deadline());
        Some(Candidate { key: key.clone(), incarnation, alive, idle_since, deadline })
    }

    fn removal(&self, now: Now, gone: &Candidate) -> Option<Removal> {
        let lease = self.leases.get(&gone.key)?;
        let idle_ms = millis(now.in_service.saturating_sub(gone.idle_since));
        let expired = gone.deadline <= now.in_service;
        Some(Removal {
            cluster: gone.key.cluster.clone(),
            broker: lease.broker.clone(),
            address: gone.key.address.clone(),
            incarnation: Some(gone.incarnation),
            cause: if expired { Cause::Expired { idle_ms } } else { Cause::Disconnected },
        })
    }

    /// The guard to propose, when the table says otherwise.
    fn decide_guard(&mut self, now: Now, leader: &Leader<'_>, guard: &Guard) -> Option<bool> {
        let active = guard.since().is_some();
        let differs = active != leader.table.eviction_guard().is_some();
        if !differs || self.guard_is_proposed || now.running < self.guard_not_before {
            return None;
        }
        self.guard_is_proposed = true;
        Some(active)
    }

    /// How the proposal of the guard ended.
    pub(super) fn guard_proposed(&mut self, now: Now, end: ProposalEnd) {
        self.guard_is_proposed = false;
        if !matches!(end, ProposalEnd::Applied(_)) {
            self.guard_not_before = now.running + PROPOSE_AGAIN_AFTER;
        }
    }

    /// How many brokers the guard keeps that would be removed otherwise.
    pub(super) fn count_held(&self, now: Now, guard: &Guard) -> usize {
        let is_held = |(key, lease): &(&BrokerKey, &Lease)| {
            let would_go = self.disconnects.contains(key) || lease.deadline() <= now.in_service;
            would_go && !guard.counts(lease.alive())
        };
        self.leases.iter().filter(is_held).count()
    }
}
