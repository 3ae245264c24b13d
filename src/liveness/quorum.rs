//! A majority that is heard, or not; and silences that nodes tell each other.

use super::clock::Running;
use super::core::Core;
use super::report::Silences;
use super::views::REACHABLE_FOR;
use raft::NodeId;
use std::time::Duration;
use storage::route_info::BrokerKey;

impl Core {
    pub(super) fn look_for_quorum(&mut self, now: Running) {
        let had = std::mem::replace(&mut self.quorum, self.views.has_quorum());
        match (had, self.quorum) {
            (true, false) => self.without_quorum = now.saturating_sub(REACHABLE_FOR),
            // What the others heard meanwhile is not all known, and nobody could be told gone by what was not heard.
            (false, true) => self.ledger.excuse_all(self.without_quorum, now),
            _ => {}
        }
        if self.quorum && self.complete {
            self.inherit(now);
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

    /// How long the brokers of the table have been silent.
    pub(super) fn tell_silences(&self, now: Running) -> Silences {
        let silence = |key: &BrokerKey| now.saturating_sub(self.ledger.last_heard(key).unwrap_or(now));
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mut brokers: Vec<_> = self.ledger.keys().map(|key| (key.clone(), ms(silence(key)))).collect();
        brokers.sort_unstable();
        Silences { process: self.process, brokers }
    }
}
