//! Registrations that lose against a higher stateVersion: each is logged once, though the broker registers again and
//! again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use storage::command::Name;
use storage::route_info::BrokerKey;

/// Losers that the log remembers; beyond them it forgets all, and logs them again.
const LOSERS_MAX: usize = 1024;

/// The holder of the place that each broker lost against last.
#[derive(Debug, Default)]
pub(super) struct ConflictLog(Mutex<HashMap<BrokerKey, Name>>);

impl ConflictLog {
    /// `loser` lost against `holder`. Returns whether that is new and must be logged.
    pub(super) fn lost(&self, loser: &BrokerKey, holder: &Name) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.get(loser) == Some(holder) {
            return false;
        }
        if known.len() >= LOSERS_MAX {
            known.clear();
        }
        known.insert(loser.clone(), holder.clone());
        true
    }

    /// A registration of the broker was accepted: its next loss is new again.
    pub(super) fn accepted(&self, broker: &BrokerKey) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.is_empty() {
            known.remove(broker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broker(address: &str) -> BrokerKey {
        BrokerKey { cluster: "c".into(), address: address.into() }
    }

    #[test]
    fn a_loss_is_new_once_per_holder_and_again_after_an_accepted_registration() {
        let log = ConflictLog::default();
        assert!(log.lost(&broker("a"), &"h".into()));
        assert!(!log.lost(&broker("a"), &"h".into()));
        assert!(log.lost(&broker("a"), &"i".into()));
        assert!(log.lost(&broker("b"), &"i".into()));
        log.accepted(&broker("a"));
        assert!(log.lost(&broker("a"), &"i".into()));
        assert!(!log.lost(&broker("b"), &"i".into()));
    }

    #[test]
    fn losers_are_bounded() {
        let log = ConflictLog::default();
        for n in 0..LOSERS_MAX * 3 {
            log.lost(&broker(&n.to_string()), &"h".into());
        }
        assert!(log.0.lock().unwrap().len() <= LOSERS_MAX);
    }
}
