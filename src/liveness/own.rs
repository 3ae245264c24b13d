//! What a node hears of brokers over its own connections.

use super::clock::Running;
use super::confirmations::final_word;
use super::core::{Core, Leader};
use super::report::{Cause, Change};
use super::{ClosedBy, Heard, Known, SessionId};
use storage::Position;
use storage::route_info::BrokerKey;
use tokio::sync::oneshot;
use tokio::time::Instant;

impl Core {
    /// A broker was heard on a connection of this node; after a REGISTER, `incarnation` is what its table has.
    pub(super) fn heard(
        &mut self,
        now: Instant,
        session: SessionId,
        broker: &BrokerKey,
        what: Heard,
        incarnation: Option<Position>,
    ) {
        let now = self.clock.advance(now);
        self.counters.heard += 1;
        let timeout = self.ledger.heard(broker, now);
        let change = self.sessions.heard(now, session, broker, what, incarnation);
        if self.sessions.is_told(now, broker, timeout, what) {
            self.tell(broker, now);
        }
        if let Some(change) = change {
            self.own_changes(now, vec![change]);
        }
    }

    /// The next reports tell when a broker was heard here.
    fn tell(&mut self, broker: &BrokerKey, at: Running) {
        for stream in self.streams.values_mut() {
            stream.push_heard(broker, at, false);
        }
    }

    /// So they do of words that have waited.
    pub(super) fn tell_words_due(&mut self, now: Running) {
        for (broker, at) in self.sessions.words_due(now) {
            self.tell(&broker, at);
        }
    }

    /// A connection of this node is over.
    pub(super) fn closed(&mut self, now: Instant, session: SessionId, by: ClosedBy) {
        let now = self.clock.advance(now);
        let changes = self.sessions.closed(now, session, by, self.steady_from());
        // With the report that tells of the end: this node may stop before the next.
        self.tell_words_due(now);
        self.own_changes(now, changes);
    }

    /// This node's own ledger gets what all others get. Closes go at once, and so does a session that appears while
    /// its broker is about to be removed.
    fn own_changes(&mut self, now: Running, changes: Vec<Change>) {
        let mut effects = Vec::new();
        for change in changes {
            let ended = change.strength.is_none() && change.cause != Cause::NotFollowed;
            let urgent = ended || self.marks.has(&change.broker);
            self.wakes.senders |= urgent;
            for stream in self.streams.values_mut() {
                stream.push(change.clone(), urgent);
            }
            self.views.own_change(change, &mut effects);
        }
        self.take(now, effects);
    }

    /// A REGISTER waits for the leader's word on its broker.
    pub(super) fn confirm(
        &mut self,
        now: Instant,
        broker: &BrokerKey,
        leader: Option<&Leader<'_>>,
    ) -> Result<Known, oneshot::Receiver<Known>> {
        let now = self.clock.advance(now);
        if let Some(leader) = leader {
            self.ledger.heard(broker, now);
            if let Some(known) = final_word(self.leader_word(leader, broker)) {
                return Ok(known);
            }
        }
        let told = self.confirmations.wait(broker);
        for (node, stream) in &mut self.streams {
            stream.push_heard(broker, now, self.leader.is_none_or(|leader| leader == *node));
        }
        self.wakes.senders = true;
        Err(told)
    }
}
