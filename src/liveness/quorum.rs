//! A majority that is heard, or not; and silences that nodes tell each other.

use super::clock::{Running, millis};
use super::core::Core;
use super::report::Silences;
use super::sessions::NAMES_BYTES_MAX;
use super::stream::Stream;
use super::views::REACHABLE_FOR;
use raft::NodeId;
use std::time::Duration;
use storage::route_info::BrokerKey;

/// After a cut, what a peer sent before it comes this late: its packets are sent again at growing intervals until its
/// time-out ends the connection.
const LATE_AFTER_CUT: Duration = Duration::from_secs(10);
/// After a pause, what waits in the sockets is read this late.
const LATE_AFTER_PAUSE: Duration = Duration::from_secs(2);

impl Core {
    /// A session's end counts as the peer's only if its broker has been heard from this moment on.
    ///
    /// While this node was cut off or did not run, its connections ran into time-outs, and brokers gave them up and came
    /// again: it finds the old end, and maybe old words before it, sooner than the new connection.
    pub(super) fn steady_from(&self) -> Running {
        if !self.quorum && self.without_quorum > Running::ZERO {
            return Running::MAX;
        }
        (self.quorum_again + LATE_AFTER_CUT).max(self.clock.resumed() + LATE_AFTER_PAUSE)
    }

    pub(super) fn look_for_quorum(&mut self, now: Running) {
        let has = if self.learner { self.is_answered(now) } else { self.views.has_quorum() };
        let had = std::mem::replace(&mut self.quorum, has);
        match (had, self.quorum) {
            (true, false) => self.without_quorum = now.saturating_sub(REACHABLE_FOR),
            // What the others heard meanwhile is not all known, and nobody could be told gone by what was not heard.
            (false, true) => {
                self.ledger.excuse_all(self.without_quorum, now);
                if self.without_quorum > Running::ZERO {
                    self.quorum_again = now;
                    self.ask_silences_again();
                }
            }
            _ => {}
        }
        if self.quorum && self.complete {
            self.inherit(now);
        }
    }

    /// Whether a majority of the voters answers a learner's reports; they send it none.
    fn is_answered(&self, now: Running) -> bool {
        let answers = |stream: &&Stream| now <= stream.last_answer() + REACHABLE_FOR;
        self.streams.values().filter(answers).count() * 2 > self.streams.len()
    }

    /// What was told of silences may lack what happened since.
    pub(super) fn ask_silences_again(&mut self) {
        if self.inheritance.forget() {
            self.streams.values_mut().for_each(Stream::begin_again);
        }
    }

    /// A node told how long brokers have been silent.
    pub(super) fn silences(&mut self, now: Running, from: NodeId, silences: Silences) {
        self.inheritance.told(now, from, silences);
        self.look_for_quorum(now);
    }

    /// Takes over what the others know, when all have told it.
    fn inherit(&mut self, now: Running) {
        let Some(heard) = self.inheritance.take(self.views.other_voters()) else { return };
        for (broker, at) in heard {
            self.ledger.inherit(&broker, at, now);
        }
    }

    /// How long the brokers of the table have been silent. As many as a message can carry: of one that is left out, nothing
    /// is taken over.
    pub(super) fn tell_silences(&self, now: Running) -> Silences {
        let silence = |key: &BrokerKey| now.saturating_sub(self.ledger.last_heard(key).unwrap_or(now));
        let mut brokers: Vec<_> = self.ledger.keys().map(|key| (key.clone(), millis(silence(key)))).collect();
        brokers.sort_unstable();
        let mut told = 0;
        brokers.retain(|(key, _)| {
            told += key.name_bytes();
            told <= NAMES_BYTES_MAX
        });
        Silences { process: self.process, brokers }
    }
}
