//! Decides whether this node may answer look-ups from its tables.

use raft::{Node, Phase, Status};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Whether this node answers look-ups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ready {
    /// No: code 1 "name server not ready".
    #[default]
    No,
    /// Only what is in its table, and clients should go to another node: it hears the leader, but does not keep up.
    Behind,
    /// Yes, though it knows no leader: responses may be stale.
    Stale,
    /// Yes.
    Yes,
}

/// When this node answers look-ups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadinessOptions {
    /// A restarted voter that finds no leader for this long answers from the state that its log proves committed,
    /// marked stale. `None`: it waits for a leader.
    pub recovery_wait: Option<Duration>,
    /// A node that has had no leader for longer stops answering. `None`: it goes on.
    pub staleness_max: Option<Duration>,
}

impl Default for ReadinessOptions {
    fn default() -> Self {
        Self { recovery_wait: Some(Duration::from_secs(30)), staleness_max: None }
    }
}

/// Between two checks while not ready.
const CHECK_SOON: Duration = Duration::from_millis(10);
/// Between two checks otherwise.
const CHECK: Duration = Duration::from_millis(100);

/// The readiness as of the last check.
#[derive(Debug)]
pub(super) struct Readiness {
    stopping: AtomicBool,
    /// The value of [`Readiness::get`]: a look-up must not take a lock.
    may_read: AtomicBool,
    now: watch::Sender<Ready>,
    removed: watch::Sender<bool>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self {
            stopping: AtomicBool::new(false),
            may_read: AtomicBool::new(false),
            now: watch::Sender::new(Ready::No),
            removed: watch::Sender::new(false),
        }
    }
}

impl Readiness {
    /// `No` or `Yes`, where `Yes` includes `Stale` and `Behind`. Takes no lock.
    pub(super) fn get(&self) -> Ready {
        if self.may_read.load(Ordering::Relaxed) { Ready::Yes } else { Ready::No }
    }

    pub(super) fn watch(&self) -> watch::Receiver<Ready> {
        self.now.subscribe()
    }

    pub(super) fn removed(&self) -> watch::Receiver<bool> {
        self.removed.subscribe()
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.set(Ready::No);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    fn set(&self, ready: Ready) {
        let ready = if self.is_stopping() { Ready::No } else { ready };
        self.may_read.store(ready != Ready::No, Ordering::Relaxed);
        self.now.send_if_modified(|now| std::mem::replace(now, ready) != ready);
    }

    /// Checks the status of the node again and again, until the task is dropped.
    pub(super) async fn follow(&self, node: &Node, options: &ReadinessOptions) {
        let mut leadership = node.leadership();
        let mut recovering_since = Instant::now();
        loop {
            let status = node.status();
            if status.phase != Phase::Recovering || status.leadership.leader.is_some() {
                recovering_since = Instant::now();
            }
            let ready = decide(&status, recovering_since.elapsed(), options);
            self.set(ready);
            let removed = status.phase == Phase::Removed;
            self.removed.send_if_modified(|known| std::mem::replace(known, removed) != removed);
            let pause = if ready == Ready::Yes { CHECK } else { CHECK_SOON };
            // The channel is closed when the node has ended; the sleep then paces the loop.
            let _ = tokio::time::timeout(pause, leadership.changed()).await;
            if leadership.has_changed().is_err() {
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// Decides. `without_leader`: how long the node has been recovering without a known leader.
fn decide(status: &Status, without_leader: Duration, options: &ReadinessOptions) -> Ready {
    let has_leader = status.leadership.leader.is_some();
    match status.phase {
        Phase::Waiting | Phase::Removed | Phase::Stopping => Ready::No,
        Phase::Recovered => {
            let lag = &status.lag;
            let of_lag = if lag.is_behind { lag.age } else { Duration::ZERO };
            let too_old = options
                .staleness_max
                .is_some_and(|max| status.since_leader_contact.is_none_or(|since| since.max(of_lag) > max));
            match (too_old, lag.is_behind || lag.disk_full) {
                (true, _) => Ready::No,
                (false, true) => Ready::Behind,
                (false, false) if has_leader => Ready::Yes,
                (false, false) => Ready::Stale,
            }
        }
        Phase::Recovering => {
            let is_voter = status.members.iter().any(|m| m.member.id == status.node_id && m.voter);
            let waited = options.recovery_wait.is_some_and(|wait| without_leader >= wait);
            let has_state = status.applied.is_some();
            if is_voter && waited && has_state && !has_leader { Ready::Stale } else { Ready::No }
        }
    }
}

#[cfg(test)]
mod tests;
