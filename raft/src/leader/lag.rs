//! How far this node is behind the leader: it may hear the leader and yet be unable to append or apply.

use super::leadership::Leadership;
use super::recovery::Recovery;
use super::running_time::RunningTime;
use crate::api::Lag;
use crate::consensus::applied_state::AppliedStatePublisher;
use crate::consensus::raft::{Raft, committed};
use crate::local::LocalNode;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use storage::disk::SpaceLevel;
use tokio::time::sleep;

/// Between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// A node that lacks an entry for longer after it was committed is behind.
const BEHIND_AFTER: Duration = Duration::from_secs(3);
/// A node that is behind has caught up once it lacks no entry for longer.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(1);
/// Between two commit indexes that are kept of the past.
const MARK_INTERVAL: Duration = Duration::from_millis(500);
/// Commit indexes that are kept: those of nine hours, in 1 MiB.
const MARKS_MAX: usize = 65_536;

/// Watches how far this node is behind the leader.
pub(crate) struct LagWatch {
    local: Arc<LocalNode>,
    raft: Raft,
    applied: Arc<AppliedStatePublisher>,
    leadership: Arc<Leadership>,
    recovery: Arc<Recovery>,
    /// The highest commit index that a leader has sent. It comes with heartbeats too: also a node that cannot append
    /// hears it. A leader of the past is right about it as well.
    leader_commit: AtomicU64,
    now: Mutex<Lag>,
    keeps_up: AtomicBool,
}

impl LagWatch {
    /// Not behind yet.
    pub(crate) fn new(
        local: Arc<LocalNode>,
        raft: Raft,
        applied: Arc<AppliedStatePublisher>,
        leadership: Arc<Leadership>,
        recovery: Arc<Recovery>,
    ) -> Self {
        Self {
            local,
            raft,
            applied,
            leadership,
            recovery,
            leader_commit: AtomicU64::new(0),
            now: Mutex::default(),
            keeps_up: AtomicBool::new(true),
        }
    }

    /// Takes the commit index that a message of a leader carries.
    pub(crate) fn received(&self, commit: u64) {
        self.leader_commit.fetch_max(commit, Ordering::Relaxed);
    }

    /// Whether this node appends and applies what the leader sends. Takes no lock.
    pub(crate) fn keeps_up(&self) -> bool {
        self.keeps_up.load(Ordering::Relaxed)
    }

    /// The lag as of now.
    pub(crate) fn lag(&self) -> Lag {
        let (committed, applied) = self.indexes();
        Lag { entries: committed.saturating_sub(applied), ..self.lock().clone() }
    }

    /// Looks until the node stops.
    pub(crate) async fn run(self: Arc<Self>) {
        let stop = self.local.lifecycle.stop.clone();
        stop.run_until_cancelled(self.watch()).await;
    }

    async fn watch(&self) {
        let (mut running, mut backlog) = (RunningTime::begin(LOOK_PAUSE), Backlog::default());
        loop {
            sleep(LOOK_PAUSE).await;
            // Without a leader nothing is committed, and what this node has is as good as what the others have.
            let has_leader = self.leadership.leader_to_ask().is_some();
            let ran = Some(running.look()).filter(|_| has_leader).unwrap_or_default();
            // A node that starts has a lot to apply, and is not ready anyway.
            if !self.recovery.is_recovered() {
                continue;
            }
            let (committed, applied) = self.indexes();
            let age = backlog.look(ran, committed, applied);
            let mut lag = self.lock();
            let bound = if lag.is_behind { CAUGHT_UP_WITHIN } else { BEHIND_AFTER };
            // A leader lacks nothing: without it nothing is committed.
            let follows = if has_leader { self.leadership.lease().is_none() } else { lag.disk_full };
            let disk_full = follows && self.local.disk.space() == SpaceLevel::Min;
            *lag = Lag { entries: 0, age, is_behind: age >= bound, disk_full };
            self.keeps_up.store(!lag.is_behind && !disk_full, Ordering::Relaxed);
        }
    }

    /// What is committed as far as this node knows, and what it has applied.
    fn indexes(&self) -> (u64, u64) {
        let applied = self.applied.applied().map_or(0, |id| id.index);
        let committed = committed(&self.raft).map_or(0, |id| id.index);
        (committed.max(self.leader_commit.load(Ordering::Relaxed)), applied)
    }

    fn lock(&self) -> MutexGuard<'_, Lag> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Committed entries that this node has not applied.
#[derive(Default)]
struct Backlog {
    running: Duration,
    /// Commit indexes that are not applied, with the running time when they were heard; in order.
    marks: VecDeque<(Duration, u64)>,
}

impl Backlog {
    /// Gives for how long this node has known that an entry is committed which it has not applied.
    fn look(&mut self, ran: Duration, committed: u64, applied: u64) -> Duration {
        self.running += ran;
        while self.marks.front().is_some_and(|(_, index)| *index <= applied) {
            self.marks.pop_front();
        }
        let is_full = self.marks.len() == MARKS_MAX;
        match self.marks.back_mut() {
            // Until there is room the last mark stands for what comes after it, too.
            Some((_, index)) if is_full => *index = committed,
            Some((at, _)) if self.running < *at + MARK_INTERVAL => {}
            _ if committed > applied => self.marks.push_back((self.running, committed)),
            _ => {}
        }
        self.marks.front().map_or(Duration::ZERO, |(at, _)| self.running - *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_applies_soon_has_no_backlog_however_much_is_committed() {
        let mut backlog = Backlog::default();
        for index in 1..200 {
            assert!(backlog.look(LOOK_PAUSE, 1000 * index, 1000 * index - 1) < 2 * LOOK_PAUSE);
        }
    }

    #[test]
    fn the_age_is_that_of_the_oldest_entry_that_is_not_applied() {
        let mut backlog = Backlog::default();
        for looks in 0..10_000 {
            let age = backlog.look(LOOK_PAUSE, 100 + looks, 99);
            assert_eq!(age, LOOK_PAUSE * u32::try_from(looks).unwrap());
        }
        // It catches up with what was committed a minute before the end, and while it does more is committed.
        let left = backlog.look(LOOK_PAUSE, 10_100, 9_499);
        assert!(left > Duration::from_secs(59) && left < Duration::from_secs(61), "{left:?}");
        let left = backlog.look(LOOK_PAUSE, 10_101, 10_099);
        assert!(left < 2 * MARK_INTERVAL, "{left:?}");
        assert_eq!(backlog.look(LOOK_PAUSE, 10_101, 10_101), Duration::ZERO);
    }

    #[test]
    fn a_backlog_of_days_takes_no_more_memory_and_ends() {
        let (mut backlog, mut committed) = (Backlog::default(), 0);
        for _ in 0..MARKS_MAX + 10 {
            committed += 1;
            backlog.look(MARK_INTERVAL, committed, 0);
        }
        assert_eq!(backlog.marks.len(), MARKS_MAX);
        assert!(
            backlog.look(MARK_INTERVAL, committed, committed - 1) > 10 * MARK_INTERVAL,
            "it is no hour ahead"
        );
        assert_eq!(backlog.look(MARK_INTERVAL, committed, committed), Duration::ZERO);
    }
}
