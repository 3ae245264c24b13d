//! Registrations that lose against a higher stateVersion: each loser is told of once, though it comes again and again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use storage::command::Name;
use storage::route_info::BrokerKey;

/// Losers that are remembered; beyond them all are forgotten, and told of again.
const LOSERS_MAX: usize = 1024;

/// Who lost against whom, the last time.
#[derive(Debug, Default)]
pub(super) struct Quarrels(Mutex<HashMap<BrokerKey, Name>>);

impl Quarrels {
    /// `loser` lost against `holder`. Says whether that is news.
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

    /// It was taken: the next loss is news again.
    pub(super) fn taken(&self, broker: &BrokerKey) {
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
    fn a_loser_is_news_once_per_holder_and_again_after_it_was_taken() {
        let quarrels = Quarrels::default();
        assert!(quarrels.lost(&broker("a"), &"h".into()));
        assert!(!quarrels.lost(&broker("a"), &"h".into()));
        assert!(quarrels.lost(&broker("a"), &"i".into()));
        assert!(quarrels.lost(&broker("b"), &"i".into()));
        quarrels.taken(&broker("a"));
        assert!(quarrels.lost(&broker("a"), &"i".into()));
        assert!(!quarrels.lost(&broker("b"), &"i".into()));
    }

    #[test]
    fn losers_are_bounded() {
        let quarrels = Quarrels::default();
        for n in 0..LOSERS_MAX * 3 {
            quarrels.lost(&broker(&n.to_string()), &"h".into());
        }
        assert!(quarrels.0.lock().unwrap().len() <= LOSERS_MAX);
    }
}
