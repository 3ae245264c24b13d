//! Which notices this node has to send.

use super::MinBrokerIdNotice;
use raft::AppliedEntry;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use storage::Position;
use storage::command::Name;
use storage::outcome::Event;
use tokio::time::Instant;

/// A new leader sends again what changed within this time: its predecessor may have died before it sent.
const SEND_AGAIN_FOR: Duration = Duration::from_secs(10);

/// The last notice of each broker name, as every node applies them; only the leader sends them.
#[derive(Debug, Default)]
pub(super) struct DueNotices {
    recent: HashMap<Name, (Instant, MinBrokerIdNotice, Sent)>,
    led: Option<u64>,
}

/// Whether this process has sent a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Yes,
    No,
}

impl DueNotices {
    /// An entry was applied. `leads`: this node leads. Gives the notices to send now, in order.
    pub(super) fn applied(
        &mut self,
        now: Instant,
        entry: &AppliedEntry,
        leads: bool,
    ) -> Vec<MinBrokerIdNotice> {
        let mut due = Vec::new();
        if entry.replay {
            return due;
        }
        let notices = (0u32..)
            .zip(&entry.events)
            .filter_map(|(number, event)| notice(Position { index: entry.id.index, number }, event));
        let notices: Vec<_> = notices.collect();
        if !notices.is_empty() {
            self.forget_old(now);
        }
        for notice in notices {
            let sent = if leads { Sent::Yes } else { Sent::No };
            if leads {
                due.push(notice.clone());
            }
            self.recent.insert(notice.broker.clone(), (now, notice, sent));
        }
        due
    }

    /// The leadership changed: the term that this node leads in, if it does. Gives what a new leader sends again.
    pub(super) fn leads(&mut self, now: Instant, term: Option<u64>) -> Vec<MinBrokerIdNotice> {
        self.forget_old(now);
        let new = term.is_some() && term != self.led;
        self.led = term;
        if !new {
            return Vec::new();
        }
        let mut due = BTreeMap::new();
        for (_, notice, sent) in self.recent.values_mut() {
            if *sent == Sent::No {
                *sent = Sent::Yes;
                due.insert(notice.at, notice.clone());
            }
        }
        due.into_values().collect()
    }

    fn forget_old(&mut self, now: Instant) {
        self.recent.retain(|_, (at, ..)| now < *at + SEND_AGAIN_FOR);
    }
}

fn notice(at: Position, event: &Event) -> Option<MinBrokerIdNotice> {
    let Event::MinBrokerIdChanged { broker, min_id, min_address, ha_address, offline_address, targets } =
        event
    else {
        return None;
    };
    Some(MinBrokerIdNotice {
        at,
        broker: broker.clone(),
        min_id: *min_id,
        min_address: min_address.clone(),
        ha_address: ha_address.clone(),
        offline_address: offline_address.clone(),
        targets: targets.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::LogId;

    fn entry(index: u64, replay: bool) -> AppliedEntry {
        let event = Event::MinBrokerIdChanged {
            broker: "b".into(),
            min_id: 1,
            min_address: "a:1".into(),
            ha_address: None,
            offline_address: Some("a:0".into()),
            targets: vec!["a:1".into()],
        };
        AppliedEntry { id: LogId { term: 1, index }, events: vec![event], replay, replaced: false }
    }

    fn indexes(notices: &[MinBrokerIdNotice]) -> Vec<u64> {
        notices.iter().map(|notice| notice.at.index).collect()
    }

    #[test]
    fn only_the_leader_sends_once_and_never_on_replay() {
        let (mut notices, now) = (DueNotices::default(), Instant::now());
        assert!(notices.leads(now, Some(1)).is_empty());
        assert_eq!(indexes(&notices.applied(now, &entry(4, false), true)), [4]);
        assert!(notices.applied(now, &entry(5, true), true).is_empty());
        assert!(notices.leads(now, Some(1)).is_empty());
        assert!(notices.leads(now, None).is_empty());
        assert!(notices.leads(now, Some(3)).is_empty(), "sent already by this process");
    }

    #[test]
    fn a_new_leader_sends_the_last_change_of_each_name_again() {
        let (mut notices, now) = (DueNotices::default(), Instant::now());
        assert!(notices.applied(now, &entry(4, false), false).is_empty());
        assert!(notices.applied(now, &entry(6, false), false).is_empty());
        assert_eq!(indexes(&notices.leads(now + Duration::from_secs(9), Some(2))), [6]);
        assert!(notices.leads(now + Duration::from_secs(9), Some(2)).is_empty());

        notices.applied(now, &entry(7, false), false);
        assert!(notices.leads(now + Duration::from_secs(10), Some(3)).is_empty(), "too long ago");
    }
}
