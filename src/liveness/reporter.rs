//! The ordered stream of reports to the leader.

use super::RegistrationStatus;
use super::clock::{Now, millis};
use super::messages::{LeaderAnswer, Probe, Report, SessionChange, SessionReport, TableStatus};
use super::sessions::Sessions;
use raft::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;
use storage::route_info::BrokerKey;
use tokio::sync::oneshot;

/// Between two reports when nothing is urgent, whether there is anything to report or not.
pub(super) const REPORT_EVERY: Duration = Duration::from_millis(200);
/// After a report that got no answer or was refused, before the next.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(50);
/// Session changes that wait; more turn into a full report.
pub(super) const CHANGES_MAX: usize = 8_192;
/// Brokers heard in one report; the others go into the next, at once.
pub(super) const HEARTBEATS_MAX: usize = 4_096;

/// REGISTER requests that wait for their broker's registration status.
type Confirmations = BTreeMap<BrokerKey, Vec<oneshot::Sender<RegistrationStatus>>>;

/// What waits for the leader, and what is on its way. One report is on its way at a time, so that what comes meanwhile
/// travels together.
#[derive(Debug)]
pub(super) struct Reporter {
    process: u64,
    leader: Option<NodeId>,
    sequence: u64,
    full_due: bool,
    changes: Vec<SessionChange>,
    confirmations: Confirmations,
    urgent: bool,
    probe: Option<Probe>,
    /// Running time before which nothing is sent.
    not_before: Duration,
    last_sent: Option<Duration>,
    in_flight: Option<InFlight>,
}

/// A report that waits for its answer.
#[derive(Debug)]
struct InFlight {
    to: NodeId,
    heartbeats: Vec<BrokerKey>,
    confirmations: Confirmations,
}

impl Reporter {
    pub(super) fn new(process: u64) -> Self {
        Self {
            process,
            leader: None,
            sequence: 0,
            full_due: true,
            changes: Vec::new(),
            confirmations: Confirmations::new(),
            urgent: false,
            probe: None,
            not_before: Duration::ZERO,
            last_sent: None,
            in_flight: None,
        }
    }

    /// Another leader, or the same one in another term: it knows nothing of this node yet.
    pub(super) fn begin(&mut self, leader: Option<NodeId>) {
        self.leader = leader;
        self.probe = None;
        self.not_before = Duration::ZERO;
        if let Some(sent) = self.in_flight.take() {
            self.confirm_again(sent.confirmations);
        }
        self.begin_again();
    }

    /// The next report is a full one, and goes at once.
    fn begin_again(&mut self) {
        self.full_due = true;
        self.urgent = true;
        self.changes = Vec::new();
    }

    pub(super) fn leader(&self) -> Option<NodeId> {
        self.leader
    }

    /// A session changed. The end of a broker's last one goes at once, since a decision may wait for it.
    pub(super) fn push(&mut self, change: SessionChange) {
        self.urgent |= matches!(change, SessionChange::Ended(_, None, _));
        if self.full_due {
            return;
        }
        if self.changes.len() >= CHANGES_MAX {
            self.begin_again();
        } else {
            self.changes.push(change);
        }
    }

    /// A REGISTER waits for the registration status of its broker. Goes at once.
    pub(super) fn confirm(&mut self, broker: &BrokerKey) -> oneshot::Receiver<RegistrationStatus> {
        let (sender, receiver) = oneshot::channel();
        self.confirmations.entry(broker.clone()).or_default().push(sender);
        self.urgent = true;
        receiver
    }

    /// The leader probes: the next report goes at once and answers it.
    pub(super) fn answer_probe(&mut self, from: NodeId, probe: Probe) {
        if self.leader == Some(from) {
            self.probe = Some(probe);
            self.urgent = true;
        }
    }

    /// The next report to a node, when it is the leader and a report is due.
    pub(super) fn poll(&mut self, now: Now, to: NodeId, sessions: &mut Sessions) -> Option<Report> {
        if self.leader != Some(to)
            || self.in_flight.is_some()
            || now.running < self.not_before
            || !self.is_due(now)
        {
            return None;
        }
        self.sequence += 1;
        self.last_sent = Some(now.running);
        let content = if std::mem::take(&mut self.full_due) {
            self.changes = Vec::new();
            SessionReport::Full(sessions.full_report(now.in_service))
        } else {
            SessionReport::Incremental(std::mem::take(&mut self.changes))
        };
        let last_heartbeat = sessions.take_unreported(HEARTBEATS_MAX);
        self.urgent = sessions.has_unreported();
        let mut confirmations = std::mem::take(&mut self.confirmations);
        confirmations.retain(|_, waiting| {
            waiting.retain(|sender| !sender.is_closed());
            !waiting.is_empty()
        });
        let report = Report {
            process: self.process,
            sequence: self.sequence,
            probe: self.probe,
            sessions: content,
            heartbeats: last_heartbeat
                .iter()
                .map(|(broker, at)| (broker.clone(), millis(now.in_service.saturating_sub(*at))))
                .collect(),
            confirm: confirmations.keys().cloned().collect(),
        };
        let heartbeats = last_heartbeat.into_iter().map(|(broker, _)| broker).collect();
        self.in_flight = Some(InFlight { to, heartbeats, confirmations });
        Some(report)
    }

    /// How long to wait before the next look, when no report is due now and nothing new comes.
    pub(super) fn wait(&self) -> Duration {
        if self.urgent { RETRY_AFTER } else { REPORT_EVERY }
    }

    fn is_due(&self, now: Now) -> bool {
        self.urgent || self.last_sent.is_none_or(|at| now.running >= at + REPORT_EVERY)
    }

    /// The leader took the report.
    pub(super) fn accepted(&mut self, from: NodeId, answer: Option<LeaderAnswer>, sessions: &mut Sessions) {
        let Some(sent) = self.in_flight.take_if(|sent| sent.to == from) else { return };
        let Some(answer) = answer else { return self.confirm_again(sent.confirmations) };
        let mut waiting = sent.confirmations;
        // Brokers that the answer does not mention are registered.
        sent.heartbeats.iter().for_each(|broker| sessions.note_status(broker, true));
        for (broker, status) in answer.statuses {
            sessions.note_status(&broker, matches!(status, TableStatus::Registered(_)));
            // While a removal is proposed the requests wait on: what they propose must come after it.
            if let Some(status) = answered(status, answer.term, answer.applied) {
                for sender in waiting.remove(&broker).into_iter().flatten() {
                    // The request may have reached its deadline.
                    let _ = sender.send(status);
                }
            }
        }
        answer.settled.iter().for_each(|broker| sessions.settle(broker));
        self.confirm_again(waiting);
    }

    /// The node refused the report, or did not answer: a full one follows.
    pub(super) fn failed(&mut self, now: Now, to: NodeId) {
        let Some(sent) = self.in_flight.take_if(|sent| sent.to == to) else { return };
        self.confirm_again(sent.confirmations);
        self.begin_again();
        self.not_before = now.running + RETRY_AFTER;
    }

    /// Requests that still wait are confirmed with the next report.
    fn confirm_again(&mut self, confirmations: Confirmations) {
        for (broker, mut waiting) in confirmations {
            self.confirmations.entry(broker).or_default().append(&mut waiting);
        }
    }

    /// This node leads by now, and answers the requests that wait itself.
    pub(super) fn confirm_here(&mut self, status: impl Fn(&BrokerKey) -> Option<RegistrationStatus>) {
        self.confirmations.retain(|broker, waiting| {
            waiting.retain(|sender| !sender.is_closed());
            let Some(status) = status(broker) else { return !waiting.is_empty() };
            for sender in waiting.drain(..) {
                // The request may have reached its deadline.
                let _ = sender.send(status);
            }
            false
        });
    }
}

/// The status as a request gets it; `None` while a removal is proposed and not applied.
pub(super) fn answered(status: TableStatus, term: u64, applied: u64) -> Option<RegistrationStatus> {
    match status {
        TableStatus::Registered(incarnation) => {
            Some(RegistrationStatus::Registered { term, incarnation, applied })
        }
        TableStatus::NotRegistered => Some(RegistrationStatus::NotRegistered),
        TableStatus::Removing => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages::FullReport;
    use super::super::sessions::Keyed;
    use super::super::tests::{key, ms};
    use super::super::{SessionId, Strength};
    use super::*;
    use storage::Position;

    const LEADER: NodeId = 2;

    struct Node {
        reporter: Reporter,
        sessions: Sessions,
    }

    fn now(n: u64) -> Now {
        Now { running: ms(n), in_service: ms(n) }
    }

    /// A node whose first, full report was taken at 0 ms.
    fn node() -> Node {
        let mut node =
            Node { reporter: Reporter::new(7), sessions: Sessions::new(Keyed::default(), 100_000) };
        assert!(node.poll(0).is_none(), "no leader is known");
        node.reporter.begin(Some(LEADER));
        assert_eq!(node.poll(0).unwrap().sessions, SessionReport::Full(FullReport::default()));
        node.accepted(LeaderAnswer::default());
        node
    }

    impl Node {
        fn poll(&mut self, at: u64) -> Option<Report> {
            self.reporter.poll(now(at), LEADER, &mut self.sessions)
        }

        fn accepted(&mut self, answer: LeaderAnswer) {
            self.reporter.accepted(LEADER, Some(answer), &mut self.sessions);
        }

        fn hear(&mut self, at: u64, broker: usize) {
            let session = SessionId(broker as u64);
            let change = self.sessions.heartbeat(ms(at), session, &key(broker), Strength::Strong, None);
            change.unwrap().into_iter().for_each(|change| self.reporter.push(change));
        }
    }

    fn is_full(report: &Report) -> bool {
        matches!(report.sessions, SessionReport::Full(_))
    }

    #[test]
    fn reports_go_in_batches_and_what_is_urgent_at_once() {
        let mut node = node();
        assert!(node.poll(199).is_none(), "nothing to report");
        assert!(node.poll(200).is_some(), "the leader must see that this node is there");
        node.accepted(LeaderAnswer::default());
        node.hear(210, 1);
        node.hear(390, 1);
        assert!(node.poll(399).is_none());
        let report = node.poll(400).unwrap();
        let opened = SessionChange::Opened(key(1), Strength::Strong);
        assert_eq!(report.sessions, SessionReport::Incremental(vec![opened]));
        assert_eq!(
            (report.sequence, report.heartbeats),
            (3, vec![(key(1), 10)]),
            "with the newest heartbeat"
        );
        let _waits = node.reporter.confirm(&key(1));
        assert!(node.poll(401).is_none(), "one at a time");
        node.accepted(LeaderAnswer::default());
        assert_eq!(node.poll(401).unwrap().confirm, [key(1)]);
    }

    #[test]
    fn failure_refusal_overflow_and_another_leader_turn_into_a_full_report() {
        let mut node = node();
        node.hear(1, 1);
        node.poll(200).unwrap();
        node.reporter.failed(now(200), LEADER);
        assert!(node.poll(249).is_none(), "not at once");
        let report = node.poll(250).unwrap();
        let SessionReport::Full(full) = &report.sessions else { panic!("{report:?}") };
        assert_eq!(full.sessions, [(key(1), Strength::Strong, 249)]);
        node.accepted(LeaderAnswer::default());

        for n in 0..=CHANGES_MAX {
            node.reporter.push(SessionChange::Opened(key(n), Strength::Weak));
        }
        assert!(is_full(&node.poll(251).unwrap()));
        node.accepted(LeaderAnswer::default());

        node.poll(500).unwrap();
        node.reporter.begin(Some(LEADER));
        node.accepted(LeaderAnswer::default());
        assert!(
            is_full(&node.poll(501).unwrap()),
            "the answer to the former leader's report changes nothing"
        );
        node.reporter.begin(Some(3));
        assert!(node.poll(900).is_none(), "to the leader only");
    }

    #[test]
    fn many_heartbeats_go_on_at_once() {
        let mut node = node();
        for n in 0..HEARTBEATS_MAX + 10 {
            node.hear(1, n);
        }
        assert!(is_full(&{
            node.reporter.begin(Some(LEADER));
            node.poll(2).unwrap()
        }));
        node.accepted(LeaderAnswer::default());
        for n in 0..HEARTBEATS_MAX + 10 {
            node.hear(3, n);
        }
        assert_eq!(node.poll(202).unwrap().heartbeats.len(), HEARTBEATS_MAX);
        node.accepted(LeaderAnswer::default());
        assert_eq!(node.poll(202).unwrap().heartbeats.len(), 10);
    }

    #[tokio::test]
    async fn a_request_waits_for_an_answer_to_a_report_that_left_after_it() {
        let mut node = node();
        node.hear(1, 1);
        node.poll(200).unwrap();
        let mut waits = node.reporter.confirm(&key(1));
        let at = Position { index: 5, number: 0 };
        let answer =
            |status| LeaderAnswer { term: 3, applied: 9, statuses: vec![(key(1), status)], settled: vec![] };
        node.accepted(answer(TableStatus::Registered(at)));
        assert!(waits.try_recv().is_err(), "that report left before");
        node.poll(201).unwrap();
        node.accepted(answer(TableStatus::Removing));
        assert!(waits.try_recv().is_err() && node.sessions.is_not_registered(&key(1)));
        node.poll(401).unwrap();
        node.reporter.failed(now(401), LEADER);
        assert_eq!(node.poll(451).unwrap().confirm, [key(1)], "asked again");
        node.accepted(answer(TableStatus::Registered(at)));
        let status = RegistrationStatus::Registered { term: 3, incarnation: at, applied: 9 };
        assert_eq!(waits.await.unwrap(), status);
        assert!(!node.sessions.is_not_registered(&key(1)));
    }

    #[test]
    fn brokers_that_an_answer_does_not_mention_are_registered() {
        let mut node = node();
        node.hear(1, 1);
        node.poll(200).unwrap();
        let statuses = vec![(key(1), TableStatus::NotRegistered)];
        node.accepted(LeaderAnswer { statuses, ..LeaderAnswer::default() });
        assert!(node.sessions.is_not_registered(&key(1)));
        node.sessions.heartbeat(ms(300), SessionId(1), &key(1), Strength::Weak, None).unwrap();
        node.poll(400).unwrap();
        node.accepted(LeaderAnswer::default());
        assert!(!node.sessions.is_not_registered(&key(1)));
    }
}
