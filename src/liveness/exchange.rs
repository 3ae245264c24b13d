//! Reports to other nodes and from them.

use super::clock::Running;
use super::core::{Core, Leader};
use super::report::{Answer, Ask, Content, Full, Report, Words};
use super::sessions::LeaderWord;
use raft::NodeId;
use std::time::Duration;
use tokio::time::Instant;

impl Core {
    /// The next report to a voter, when one is due.
    pub(super) fn poll(&mut self, now: Instant, to: NodeId) -> Option<Report> {
        let now = self.clock.advance(now);
        let stream = self.streams.get_mut(&to)?;
        let full_due = stream.full_due();
        let asks_silences = self.inheritance.is_open();
        let full = || Full { asks_silences, ..self.sessions.full(now) };
        let report = stream.poll(now, self.process, self.confirmations.ticket(), full)?;
        self.counters.reports_sent += 1;
        self.counters.full_reports_sent += u64::from(full_due);
        Some(report)
    }

    /// A report's answer. What the leader said of brokers is kept, and told to those who wait for it.
    pub(super) fn answered(&mut self, now: Instant, from: NodeId, answer: Answer) {
        let now = self.clock.advance(now);
        let Some(stream) = self.streams.get_mut(&from) else { return };
        let Some(sent) = stream.answered(now, answer.accepted) else { return };
        if let Some(silences) = answer.silences {
            self.silences(now, from, silences);
        }
        if let Some(Words { term, applied, words }) = answer.leader
            && term >= self.newest_term
        {
            self.newest_term = term;
            for ((broker, _), word) in sent.heard.iter().zip(words) {
                let word = LeaderWord { term, applied, word };
                self.sessions.note_word(broker, word);
                self.confirmations.word(broker, word, sent.ticket);
            }
        }
        self.ask_on(from);
        self.wakes.senders |= !answer.accepted;
    }

    /// A report got no answer.
    pub(super) fn failed(&mut self, now: Instant, to: NodeId) {
        let now = self.clock.advance(now);
        self.counters.reports_failed += 1;
        if let Some(stream) = self.streams.get_mut(&to) {
            stream.failed(now);
        }
        self.ask_on(to);
    }

    /// Those who still wait for a word ask again with the next report. That they wait is no word of the broker.
    fn ask_on(&mut self, to: NodeId) {
        let waiting = self.confirmations.brokers();
        if let Some(stream) = self.streams.get_mut(&to) {
            waiting.iter().for_each(|broker| stream.push_heard(broker, Running::ZERO, false));
        }
    }

    /// A report of another node. A leader gives its word on each broker heard.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        from: NodeId,
        mut report: Report,
        leader: Option<&Leader<'_>>,
    ) -> Answer {
        let now: Running = self.clock.advance(now);
        self.counters.reports_received += 1;
        let mut effects = Vec::new();
        let answers = report.answering.is_some();
        let asked = matches!(&report.content, Content::Full(full) if full.asks_silences);
        let heard = std::mem::take(&mut report.heard);
        if from == self.node_id || !self.views.report(now, from, report, &mut effects) {
            self.counters.report_gaps += 1;
            return Answer { accepted: false, leader: None, silences: None };
        }
        self.take(now, effects);
        for (broker, age_ms) in &heard {
            self.ledger.heard(broker, now.saturating_sub(Duration::from_millis(*age_ms)));
        }
        self.look_for_quorum(now);
        self.wakes.decider |= answers && !self.marks.is_empty();
        let words = leader.map(|leader| Words {
            term: leader.term,
            applied: leader.applied,
            words: heard.iter().map(|(broker, _)| self.leader_word(leader, broker).word).collect(),
        });
        let silences = asked.then(|| self.tell_silences(now));
        Answer { accepted: true, leader: words, silences }
    }

    /// A leader asks: the next report to it is younger than the question, and goes at once.
    pub(super) fn asked(&mut self, from: NodeId, ask: Ask) {
        if let Some(stream) = self.streams.get_mut(&from) {
            stream.push_answering(ask);
            self.wakes.senders = true;
        }
    }
}
