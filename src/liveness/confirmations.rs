//! REGISTER requests that wait for the leader's word.

use super::Known;
use super::report::Word;
use super::sessions::LeaderWord;
use std::collections::BTreeMap;
use storage::route_info::BrokerKey;
use tokio::sync::oneshot;

/// Who waits, by broker.
#[derive(Debug, Default)]
pub(super) struct Confirmations {
    waiting: BTreeMap<BrokerKey, Vec<Waiter>>,
    ticket: u64,
}

#[derive(Debug)]
struct Waiter {
    /// Only words of a report that left after this number was drawn count: older ones may have been overtaken.
    ticket: u64,
    tell: oneshot::Sender<Known>,
}

impl Confirmations {
    /// Begins to wait.
    pub(super) fn wait(&mut self, broker: &BrokerKey) -> oneshot::Receiver<Known> {
        self.ticket += 1;
        let (tell, told) = oneshot::channel();
        self.waiting.entry(broker.clone()).or_default().push(Waiter { ticket: self.ticket, tell });
        told
    }

    /// The number that a report which leaves now carries.
    pub(super) fn ticket(&self) -> u64 {
        self.ticket
    }

    /// A word came. While a removal is under way the waiters go on waiting: what they propose must come after it.
    pub(super) fn word(&mut self, broker: &BrokerKey, word: LeaderWord, ticket: u64) {
        let Some(known) = final_word(word) else { return };
        let Some(waiters) = self.waiting.get_mut(broker) else { return };
        for waiter in waiters.extract_if(.., |waiter| waiter.ticket <= ticket) {
            // The one who waited may have gone: the deadline came first.
            let _ = waiter.tell.send(known);
        }
        if waiters.is_empty() {
            self.waiting.remove(broker);
        }
    }

    /// Forgets those who gave up. Gives the brokers still waited for.
    pub(super) fn brokers(&mut self) -> Vec<BrokerKey> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        self.waiting.retain(|_, waiters| {
            waiters.retain(|waiter| !waiter.tell.is_closed());
            !waiters.is_empty()
        });
        self.waiting.keys().cloned().collect()
    }
}

/// The word as an answer, unless the broker is just being removed.
pub(super) fn final_word(word: LeaderWord) -> Option<Known> {
    match word.word {
        Word::Known(incarnation) => {
            Some(Known::Known { term: word.term, incarnation, applied: word.applied })
        }
        Word::Unknown => Some(Known::Unknown),
        Word::Removing => None,
    }
}
