//! The ordered stream of reports to one other node.

use super::by_broker::{BrokerMap, Keyed};
use super::clock::{Running, millis};
use super::report::{Ask, Cause, Change, Content, Full, Report};
use std::time::Duration;
use storage::route_info::BrokerKey;

/// Between two reports when nothing is urgent, whether there is anything to say or not.
pub(super) const REPORT_EVERY: Duration = Duration::from_millis(200);
/// After a report that got no answer, before the next try.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(100);
/// Changes that wait for one receiver; more turn into a full report.
pub(super) const CHANGES_MAX: usize = 8_192;
/// Brokers heard in one report; the rest goes into the next, at once.
pub(super) const HEARD_MAX: usize = 4_096;
/// Brokers heard that wait for one receiver; more turn into a full report, which says when each with a session was heard.
pub(super) const HEARD_WAITING_MAX: usize = 65_536;

/// What is waiting for a receiver, and what is on its way. One report is on its way at a time, so that those that
/// come meanwhile travel together.
#[derive(Debug)]
pub(super) struct Stream {
    sequence: u64,
    full_due: bool,
    changes: Vec<Change>,
    /// When each was heard.
    heard: BrokerMap<Running>,
    urgent: bool,
    answering: Option<Ask>,
    not_before: Running,
    last_sent: Option<Running>,
    on_the_way: Option<OnTheWay>,
    last_answer: Running,
}

/// A report that waits for its answer.
#[derive(Debug)]
pub(super) struct OnTheWay {
    /// Brokers in the order of the answer's words.
    pub(super) heard: Vec<(BrokerKey, Running)>,
    /// Confirmations asked for up to this number were in it.
    pub(super) ticket: u64,
    full: bool,
}

impl Stream {
    /// A new stream: begins with a full report.
    pub(super) fn new(keyed: Keyed) -> Self {
        Self {
            sequence: 0,
            full_due: true,
            changes: Vec::new(),
            heard: BrokerMap::with_hasher(keyed),
            urgent: true,
            answering: None,
            not_before: Running::ZERO,
            last_sent: None,
            on_the_way: None,
            last_answer: Running::ZERO,
        }
    }

    /// Adds a change. A close (and whatever a leader's decision may wait for) goes at once.
    pub(super) fn push(&mut self, change: Change, urgent: bool) {
        self.urgent |= urgent;
        // One that is not followed says so again with its next words.
        let may_wait = change.cause == Cause::NotFollowed && self.changes.len() >= CHANGES_MAX / 2;
        if self.full_due || may_wait {
            return;
        }
        if self.changes.len() >= CHANGES_MAX {
            self.begin_again();
            return;
        }
        self.changes.push(change);
    }

    /// Adds a broker that was heard. Urgent when a REGISTER waits for the answer.
    pub(super) fn push_heard(&mut self, broker: &BrokerKey, at: Running, urgent: bool) {
        self.urgent |= urgent;
        if let Some(heard) = self.heard.get_mut(broker) {
            *heard = at.max(*heard);
            return;
        }
        if self.heard.len() >= HEARD_WAITING_MAX {
            self.begin_again();
            self.heard.clear();
        }
        self.heard.insert(broker.clone(), at);
    }

    /// The receiver asked: the next report goes at once and says so.
    pub(super) fn push_answering(&mut self, ask: Ask) {
        self.answering = Some(ask);
        self.urgent = true;
    }

    /// The next report, when one is due. `full` is called only for a full one.
    pub(super) fn poll(
        &mut self,
        now: Running,
        process: u64,
        ticket: u64,
        full: impl FnOnce() -> Full,
    ) -> Option<Report> {
        if self.on_the_way.is_some() || now < self.not_before || !self.is_due(now) {
            return None;
        }
        self.sequence += 1;
        let is_full = std::mem::take(&mut self.full_due);
        let content = if is_full {
            self.changes = Vec::new();
            Content::Full(full())
        } else {
            Content::Changes(std::mem::take(&mut self.changes))
        };
        let heard: Vec<_> = if self.heard.len() <= HEARD_MAX {
            self.heard.drain().collect()
        } else {
            let first = self.heard.iter().take(HEARD_MAX);
            let first: Vec<_> = first.map(|(broker, at)| (broker.clone(), *at)).collect();
            first.iter().for_each(|(broker, _)| {
                self.heard.remove(broker);
            });
            first
        };
        self.urgent = !self.heard.is_empty();
        self.last_sent = Some(now);
        let age_ms = |at: Running| millis(now.saturating_sub(at));
        let told = heard.iter().map(|(broker, at)| (broker.clone(), age_ms(*at))).collect();
        self.on_the_way = Some(OnTheWay { heard, ticket, full: is_full });
        Some(Report { process, sequence: self.sequence, answering: self.answering, content, heard: told })
    }

    fn is_due(&self, now: Running) -> bool {
        let Some(last) = self.last_sent else { return true };
        self.urgent || now >= last + REPORT_EVERY
    }

    /// The answer came. Gives what was on its way; a refused report is followed by a full one at once, and a full one that
    /// was refused by the next one after a pause.
    pub(super) fn answered(&mut self, now: Running, accepted: bool) -> Option<OnTheWay> {
        let sent = self.on_the_way.take()?;
        self.last_answer = now;
        if !accepted {
            self.heard_again(&sent);
            self.begin_again();
            if sent.full {
                self.not_before = now + RETRY_AFTER;
            }
        }
        Some(sent)
    }

    /// When the receiver answered last.
    pub(super) fn last_answer(&self) -> Running {
        self.last_answer
    }

    /// No answer came: whether the report arrived is not known, so a full one follows.
    pub(super) fn failed(&mut self, now: Running) {
        if let Some(sent) = self.on_the_way.take() {
            self.heard_again(&sent);
        }
        self.begin_again();
        self.not_before = now + RETRY_AFTER;
    }

    /// Brokers of a report that was not taken are told with the next.
    fn heard_again(&mut self, sent: &OnTheWay) {
        sent.heard.iter().for_each(|(broker, at)| self.push_heard(broker, *at, false));
    }

    /// The next report is a full one, and goes at once.
    pub(super) fn begin_again(&mut self) {
        self.full_due = true;
        self.urgent = true;
        self.changes = Vec::new();
    }

    /// Whether the next report is a full one.
    pub(super) fn full_due(&self) -> bool {
        self.full_due
    }
}

#[cfg(test)]
mod tests {
    use super::super::by_broker::key;
    use super::super::report::Cause;
    use super::*;

    const fn ms(n: u64) -> Running {
        Duration::from_millis(n)
    }

    fn opened(n: usize) -> Change {
        Change { broker: key(n), strength: None, cause: Cause::Opened }
    }

    fn poll(stream: &mut Stream, now: Running) -> Option<Report> {
        stream.poll(now, 1, 0, Full::default)
    }

    /// A stream whose first, full report was taken at 0 ms.
    fn running() -> Stream {
        let mut stream = Stream::new(Keyed::default());
        let first = poll(&mut stream, ms(0)).unwrap();
        assert!(matches!(first.content, Content::Full(_)));
        stream.answered(ms(0), true);
        stream
    }

    #[test]
    fn small_batches_beats_and_urgent_reports() {
        let mut stream = running();
        assert!(poll(&mut stream, ms(199)).is_none(), "nothing to say");
        assert!(poll(&mut stream, ms(200)).is_some(), "a beat");
        stream.answered(ms(0), true);

        stream.push(opened(1), false);
        stream.push_heard(&key(1), ms(0), false);
        assert!(poll(&mut stream, ms(399)).is_none());
        let report = poll(&mut stream, ms(400)).unwrap();
        assert_eq!((report.content, report.heard), (Content::Changes(vec![opened(1)]), vec![(key(1), 400)]));

        stream.push(opened(2), true);
        assert!(poll(&mut stream, ms(401)).is_none(), "one at a time");
        stream.answered(ms(0), true);
        let report = poll(&mut stream, ms(401)).unwrap();
        assert_eq!((report.sequence, report.content), (4, Content::Changes(vec![opened(2)])));
    }

    #[test]
    fn failure_refusal_and_overflow_turn_into_a_full_report() {
        let mut stream = running();
        stream.push_heard(&key(1), ms(0), true);
        poll(&mut stream, ms(1)).unwrap();
        stream.failed(ms(1));
        assert!(poll(&mut stream, ms(100)).is_none(), "not at once");
        let report = poll(&mut stream, ms(101)).unwrap();
        assert!(matches!(report.content, Content::Full(_)));
        assert_eq!(report.heard, [(key(1), 101)], "told again, and when");

        stream.answered(ms(101), false);
        assert!(poll(&mut stream, ms(200)).is_none(), "not over and over");
        let report = poll(&mut stream, ms(201)).unwrap();
        assert!(matches!(report.content, Content::Full(_)));
        stream.answered(ms(0), true);

        for n in 0..=CHANGES_MAX {
            stream.push(opened(n), false);
        }
        assert!(stream.full_due());
        let report = poll(&mut stream, ms(202)).unwrap();
        assert!(matches!(report.content, Content::Full(_)));
        assert!(stream.changes.is_empty());
    }

    #[test]
    fn a_refused_change_is_followed_by_everything_at_once() {
        let mut stream = running();
        stream.push(opened(1), true);
        poll(&mut stream, ms(1)).unwrap();
        stream.answered(ms(1), false);
        assert!(matches!(poll(&mut stream, ms(1)).unwrap().content, Content::Full(_)));
    }

    /// A receiver that is down must not make this node's memory grow with each name that anybody calls.
    #[test]
    fn brokers_heard_that_nobody_takes_are_bounded() {
        let mut stream = running();
        for n in 0..3 * HEARD_WAITING_MAX {
            stream.push_heard(&key(n), ms(0), false);
        }
        assert!(stream.heard.len() <= HEARD_WAITING_MAX && stream.full_due());
        assert!(stream.heard.contains_key(&key(3 * HEARD_WAITING_MAX - 1)));
    }

    #[test]
    fn many_brokers_heard_go_in_several_reports_at_once() {
        let mut stream = running();
        for n in 0..HEARD_MAX + 1 {
            stream.push_heard(&key(n), ms(0), false);
        }
        assert_eq!(poll(&mut stream, ms(200)).unwrap().heard.len(), HEARD_MAX);
        stream.answered(ms(0), true);
        assert_eq!(poll(&mut stream, ms(200)).unwrap().heard.len(), 1);
    }
}
