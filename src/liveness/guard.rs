//! The mass eviction guard (Eureka's self-preservation): when most brokers seem to be gone at once, the fault is more
//! likely ours or the network's, and an empty table would turn it into an outage.

use super::{GuardStatus, LivenessOptions};
use std::collections::VecDeque;
use std::time::Duration;
use storage::Position;
use storage::route_info::BrokerKey;

/// Fewer removals than this within the window are never held back, nor is a broker of so few.
pub(super) const GUARD_BROKERS_MIN: usize = 5;

/// A broker that would be removed now. All moments are in-service time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) key: BrokerKey,
    /// The registration to remove.
    pub(super) incarnation: Position,
    /// When it was certainly alive.
    pub(super) alive: Duration,
    /// Since when it is idle.
    pub(super) idle_since: Duration,
    /// When its lease expires.
    pub(super) deadline: Duration,
}

/// Compares how many brokers there are with how many there were at any time within the window, and holds removals above
/// the share back. A broker that left and came back, or made room for another, is no loss and does not count.
///
/// Each node counts the removals that it applies, so that the next leader goes on where the last one stopped. While the
/// guard is active, a broker that was not heard since it began is held. Those that were heard since are alive and had
/// no part in the loss: they are judged among themselves, and the guard begins anew when most of them go. Begin and end are log
/// entries, from which a restarted node knows that the guard is active.
#[derive(Debug)]
pub(super) struct Guard {
    enabled: bool,
    share_percent: usize,
    window: Duration,
    hold: Duration,
    /// When removals were applied, and how many brokers there were just before, of those that count.
    applied: VecDeque<(Duration, usize)>,
    since: Option<Duration>,
    /// That idle brokers are held was logged, once for each begin.
    logged: bool,
}

impl Guard {
    pub(super) fn new(options: &LivenessOptions) -> Self {
        Self {
            enabled: options.guard,
            share_percent: usize::try_from(options.guard_share_percent).unwrap_or(100),
            window: options.guard_window,
            hold: options.guard_hold,
            applied: VecDeque::new(),
            since: None,
            logged: false,
        }
    }

    /// The table says whether the guard is active. A node that did not see it begin counts from now.
    pub(super) fn follow(&mut self, now: Duration, active: bool) {
        match (active, self.since) {
            (true, None) if self.enabled => self.begin(now),
            (false, Some(_)) => self.since = None,
            _ => {}
        }
    }

    /// Whether a broker that was certainly alive then counts, as a living or a lost one: the others are held.
    pub(super) fn counts(&self, alive: Duration) -> bool {
        self.since.is_none_or(|since| alive > since)
    }

    /// Splits the candidates into those that may go and those that are held. `population`: brokers in the table that
    /// count; `proposed`: those of them whose removal is proposed.
    pub(super) fn admit(
        &mut self,
        now: Duration,
        population: usize,
        proposed: usize,
        candidates: Vec<Candidate>,
    ) -> (Vec<Candidate>, Vec<Candidate>) {
        if !self.enabled || candidates.is_empty() {
            return (candidates, Vec::new());
        }
        let (mut go, rest): (Vec<_>, Vec<_>) =
            candidates.into_iter().partition(|c| now >= c.deadline + self.hold);
        let (mut rest, mut held): (Vec<_>, Vec<_>) = rest.into_iter().partition(|c| self.counts(c.alive));
        if !held.is_empty() && !std::mem::replace(&mut self.logged, true) {
            tracing::warn!(
                held = held.len(),
                brokers = population,
                "idle brokers are kept by the mass eviction guard"
            );
        }
        let most = self.most_within_window(now, population);
        let counted = most - population + proposed + go.iter().filter(|c| self.counts(c.alive)).count();
        let share = self.share(most);
        let total = counted + rest.len();
        if total >= GUARD_BROKERS_MIN && total > share {
            rest.sort_by(|a, b| (a.idle_since, &a.key).cmp(&(b.idle_since, &b.key)));
            let above = rest.split_off(share.saturating_sub(counted).min(rest.len()));
            if !above.is_empty() {
                self.begin(now);
            }
            held.extend(above);
        }
        go.append(&mut rest);
        (go, held)
    }

    /// The guard begins, or begins anew: brokers heard from now on count, and no others.
    fn begin(&mut self, now: Duration) {
        (self.since, self.logged) = (Some(now), false);
        self.applied.clear();
    }

    /// Removals by expiry or disconnect were applied. `count` and `population`: those that counted before, and the
    /// brokers left in the table that count.
    pub(super) fn applied(&mut self, now: Duration, count: usize, population: usize) {
        if count == 0 {
            return;
        }
        self.applied.push_back((now, population + count));
        let most = self.most_within_window(now, population);
        let lost = most - population;
        if self.enabled && lost >= GUARD_BROKERS_MIN && lost >= self.share(most) && population > 0 {
            self.begin(now);
        }
    }

    /// Until when a held broker is kept at most.
    pub(super) fn kept_until(&self, candidate: &Candidate) -> Duration {
        candidate.deadline + self.hold
    }

    /// Ends when `idle_since` finds no broker that was last heard before it began.
    pub(super) fn review(&mut self, idle_since: impl FnOnce(Duration) -> bool) {
        if self.since.is_some_and(|since| !idle_since(since)) {
            self.since = None;
        }
    }

    /// In-service time since which it is active.
    pub(super) fn since(&self) -> Option<Duration> {
        self.since
    }

    /// Its status; the caller counts `held`.
    pub(super) fn status(&self, now: Duration, held: usize) -> GuardStatus {
        let active_for = self.since.map(|since| now.saturating_sub(since));
        GuardStatus { enabled: self.enabled, active_for, held }
    }

    fn share(&self, population: usize) -> usize {
        population.saturating_mul(self.share_percent) / 100
    }

    /// The largest number of brokers within the window, those of now included.
    fn most_within_window(&mut self, now: Duration, population: usize) -> usize {
        while self.applied.front().is_some_and(|(at, _)| *at + self.window <= now) {
            self.applied.pop_front();
        }
        self.applied.iter().map(|(_, before)| *before).fold(population, usize::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn guard() -> Guard {
        Guard::new(&LivenessOptions::new(1))
    }

    fn gone(last_heartbeat: u64, from: u32, to: u32) -> Vec<Candidate> {
        let candidate = |n| Candidate {
            key: BrokerKey { cluster: "c".into(), address: format!("{n:03}").into() },
            incarnation: Position::default(),
            alive: secs(last_heartbeat),
            idle_since: secs(last_heartbeat),
            deadline: secs(last_heartbeat + 120),
        };
        (from..to).map(candidate).collect()
    }

    fn counts((go, held): (Vec<Candidate>, Vec<Candidate>)) -> (usize, usize) {
        (go.len(), held.len())
    }

    #[test]
    fn above_the_share_they_wait_until_their_timeout_and_ten_minutes_more() {
        let mut guard = guard();
        let all = gone(100, 0, 50);
        assert_eq!(counts(guard.admit(secs(101), 50, 0, all)), (30, 20));
        guard.applied(secs(101), 30, 20);
        let rest = gone(100, 30, 50);
        assert_eq!(counts(guard.admit(secs(101), 20, 0, rest.clone())), (0, 20));
        assert_eq!(counts(guard.admit(secs(150), 20, 0, rest.clone())), (0, 20), "also after the window");
        assert_eq!(guard.status(secs(150), 20).active_for, Some(secs(49)));
        assert_eq!(counts(guard.admit(secs(819), 20, 0, rest.clone())), (0, 20));
        assert_eq!(counts(guard.admit(secs(820), 20, 0, rest)), (20, 0));
        guard.review(|since| since < secs(101));
        assert_eq!(guard.status(secs(820), 0).active_for, None);
    }

    #[test]
    fn one_by_one_counts_like_all_at_once() {
        let mut guard = guard();
        for n in 0..6 {
            assert_eq!(counts(guard.admit(secs(100), 10 - n as usize, 0, gone(99, n, n + 1))), (1, 0));
            guard.applied(secs(100), 1, 9 - n as usize);
        }
        assert_eq!(counts(guard.admit(secs(101), 4, 0, gone(99, 6, 7))), (0, 1));
    }

    #[test]
    fn a_single_broker_and_a_small_group_go_always() {
        let mut guard = guard();
        assert_eq!(counts(guard.admit(secs(1), 1, 0, gone(0, 0, 1))), (1, 0));
        assert_eq!(counts(guard.admit(secs(1), 4, 0, gone(0, 0, 4))), (4, 0));
        assert_eq!(counts(guard.admit(secs(1), 100, 0, gone(0, 0, 60))), (60, 0), "not more than the share");
    }

    #[test]
    fn brokers_that_come_and_go_one_after_the_other_are_no_mass_eviction() {
        let mut guard = guard();
        for n in 0..20 {
            assert_eq!(counts(guard.admit(secs(100), 1, 0, gone(99, n, n + 1))), (1, 0), "broker {n}");
            guard.applied(secs(100), 1, 0);
        }
    }

    #[test]
    fn one_broker_of_many_that_keeps_coming_back_is_let_go_each_time() {
        let mut guard = guard();
        for _ in 0..20 {
            assert_eq!(counts(guard.admit(secs(100), 10, 0, gone(99, 0, 1))), (1, 0));
            guard.applied(secs(100), 1, 9);
        }
    }

    #[test]
    fn a_broker_that_dies_during_protection_goes() {
        let mut guard = guard();
        guard.admit(secs(100), 50, 0, gone(90, 0, 50));
        assert_eq!(counts(guard.admit(secs(200), 20, 0, gone(180, 31, 32))), (1, 0));
    }

    /// A second after 30 of 50 went, 20 are heard again, and the last of those that are gone are still in the table.
    fn a_second_later() -> Guard {
        let mut guard = guard();
        guard.applied(secs(100), 30, 20);
        assert!(guard.counts(secs(101)) && !guard.counts(secs(100)));
        guard
    }

    #[test]
    fn a_broker_with_a_heartbeat_since_it_began_goes_at_once_and_others_do_not() {
        let mut guard = a_second_later();
        let mut both = gone(101, 31, 32);
        both.extend(gone(99, 32, 33));
        let (go, held) = guard.admit(secs(101), 10, 0, both);
        assert_eq!((go[0].alive, held[0].alive), (secs(101), secs(99)));
        for n in 33..37 {
            assert_eq!(counts(guard.admit(secs(102), 10, 0, gone(99, n, n + 1))), (0, 1), "one by one");
        }
    }

    #[test]
    fn it_begins_again_when_most_of_those_that_were_alive_since_go() {
        // All at once.
        let mut guard = a_second_later();
        assert_eq!(counts(guard.admit(secs(102), 10, 0, gone(101, 30, 40))), (6, 4));
        assert_eq!(guard.since(), Some(secs(102)));
        // One by one.
        let mut guard = a_second_later();
        for n in 0..6 {
            assert_eq!(counts(guard.admit(secs(103), 10 - n as usize, 0, gone(102, n, n + 1))), (1, 0));
            guard.applied(secs(103), 1, 9 - n as usize);
        }
        assert_eq!(counts(guard.admit(secs(104), 4, 0, gone(102, 6, 7))), (0, 1));
    }

    #[test]
    fn what_is_under_way_counts() {
        let mut guard = guard();
        assert_eq!(counts(guard.admit(secs(100), 10, 6, gone(99, 6, 10))), (0, 4));
    }

    #[test]
    fn the_next_leader_goes_on_where_the_last_stopped() {
        let mut follower = guard();
        follower.applied(secs(101), 30, 20);
        assert_eq!(counts(follower.admit(secs(130), 20, 0, gone(100, 30, 50))), (0, 20));
    }

    #[test]
    fn a_node_that_did_not_see_it_begin_learns_it_from_the_table() {
        let mut restarted = guard();
        restarted.follow(secs(130), true);
        restarted.follow(secs(131), true);
        assert_eq!(counts(restarted.admit(secs(132), 0, 0, gone(100, 30, 50))), (0, 20));
        assert_eq!(counts(restarted.admit(secs(132), 1, 0, gone(131, 0, 1))), (1, 0), "heard since");
        assert_eq!(restarted.status(secs(132), 20).active_for, Some(secs(2)));
        restarted.follow(secs(140), false);
        assert_eq!(restarted.since(), None);
    }

    #[test]
    fn switched_off_it_holds_no_broker() {
        let mut guard = Guard::new(&LivenessOptions { guard: false, ..LivenessOptions::new(1) });
        assert_eq!(counts(guard.admit(secs(100), 50, 0, gone(90, 0, 50))), (50, 0));
        guard.applied(secs(100), 50, 0);
        guard.follow(secs(100), true);
        assert_eq!(guard.status(secs(100), 0), GuardStatus::default());
    }
}
