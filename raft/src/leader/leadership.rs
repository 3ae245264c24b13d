//! The leader, this node's last contact with it, and whether this node may act as the leader.

use super::contact::Contact;
use super::lateness::LatenessCounter;
use super::running_time::RunningTime;
use crate::api::{LeaderState, NodeId, TickLateness};
use crate::consensus::raft::Raft;
use crate::local::LocalNode;
use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Once no leader has been known for this long, what waits for one is refused, and so is what comes.
const LEADERLESS_AFTER: Duration = Duration::from_secs(1);
/// Between two looks at whether a leader is known.
const LEADERLESS_LOOK: Duration = Duration::from_millis(100);
/// Between two looks for a leader, while there is none.
pub(crate) const LEADER_PAUSE: Duration = Duration::from_millis(20);

/// The leader, this node's last contact with it, and whether this node may act as the leader.
pub(crate) struct Leadership {
    local: Arc<LocalNode>,
    raft: Raft,
    state: watch::Sender<LeaderState>,
    /// The term in which this node transfers its leadership: in that term it proposes nothing and has no lease. 0: none.
    transfer_term: AtomicU64,
    contact: Contact,
    /// The term of the leader of the last contact since this process started.
    contact_term: watch::Sender<u64>,
    leaderless: watch::Sender<bool>,
    lateness: LatenessCounter,
}

impl Leadership {
    /// No leader is known yet.
    pub(crate) fn new(local: Arc<LocalNode>, raft: Raft) -> Self {
        Self {
            local,
            raft,
            state: watch::Sender::default(),
            transfer_term: AtomicU64::new(0),
            contact: Contact::new(),
            contact_term: watch::Sender::default(),
            leaderless: watch::Sender::default(),
            lateness: LatenessCounter::default(),
        }
    }

    /// The leader now.
    pub(crate) fn state(&self) -> LeaderState {
        *self.state.borrow()
    }

    /// The leader, as it changes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<LeaderState> {
        self.state.subscribe()
    }

    /// Takes the leader that openraft reports.
    pub(crate) fn update(&self, now: LeaderState) {
        let mut led = false;
        let changed = self.state.send_if_modified(|state| {
            let changed = *state != now;
            led = state.leading;
            *state = now;
            changed
        });
        let LeaderState { term, leader, leading } = now;
        // At the leader for operators; at the other nodes for debugging.
        match changed {
            true if leading => tracing::info!("term {term}: this node leads"),
            true if led => tracing::info!("term {term}: this node leads no more; leader {leader:?}"),
            true => tracing::debug!("term {term}, leader {leader:?}"),
            false => {}
        }
    }

    /// The leader to send requests to: one of recent contact, or this node itself with a lease of late. Another one is
    /// likely dead, and a request that was sent cannot be taken back.
    pub(crate) fn leader_to_ask(&self) -> Option<NodeId> {
        let LeaderState { leader, leading, .. } = self.state();
        let leader = leader.filter(|leader| leading || *leader != self.local.id())?;
        self.since_contact().is_some_and(|since| since < self.recent()).then_some(leader)
    }

    /// Measures for how long no leader is known, until the node stops. A pause of the process does not count: the leader
    /// may be found right after it.
    pub(crate) async fn watch_leaderless(self: Arc<Self>) {
        let stop = self.local.lifecycle.stop.clone();
        let watch = async {
            let (mut without, mut running) = (Duration::ZERO, RunningTime::begin(LEADERLESS_LOOK));
            loop {
                sleep(LEADERLESS_LOOK).await;
                self.lateness.record(running.late());
                let gap = running.look();
                without = if self.leader_to_ask().is_some() { Duration::ZERO } else { without + gap };
                let is_leaderless = without >= LEADERLESS_AFTER;
                self.leaderless
                    .send_if_modified(|was| std::mem::replace(was, is_leaderless) != is_leaderless);
            }
        };
        stop.run_until_cancelled(watch).await;
    }

    /// How late the ticks of this runtime have been, which openraft's timers share.
    pub(crate) fn lateness(&self) -> TickLateness {
        self.lateness.get()
    }

    /// Resolves once this node has known no leader for a second. A request that waits longer does harm: brokers register
    /// under a lock that their senders need, and another nameserver may answer.
    pub(crate) async fn leaderless(&self) {
        loop {
            // The channel is never closed before this.
            let _ = self.leaderless.subscribe().wait_for(|is_leaderless| *is_leaderless).await;
            // A leader that has just been found is seen with the next look only.
            if self.leader_to_ask().is_none() {
                return;
            }
            sleep(LEADER_PAUSE).await;
        }
    }

    /// Resolves once a node other than this one leads.
    pub(crate) async fn replaced(&self, leader: NodeId) {
        let is_other = |state: &LeaderState| state.leader.is_some_and(|now| now != leader);
        // The channel is never closed before this.
        let _ = self.subscribe().wait_for(is_other).await;
    }

    /// A leader without contact for this long counts as lost.
    pub(crate) fn recent(&self) -> Duration {
        2 * self.election_timeout_max()
    }

    /// The longest election timeout: the leader's lease.
    pub(crate) fn election_timeout_max(&self) -> Duration {
        Duration::from_millis(self.local.options.timing.election_max_ms)
    }

    /// The term, if this node leads it with a valid lease right now.
    pub(crate) fn lease(&self) -> Option<u64> {
        let term = self.term_to_propose_in()?;
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        if metrics.state != ServerState::Leader || metrics.current_term != term {
            return None;
        }
        let mut voters = metrics.membership_config.voter_ids();
        let alone = voters.next() == Some(self.local.id()) && voters.next().is_none();
        let acked = metrics.last_quorum_acked.is_some_and(|at| {
            use openraft::Instant as _;
            at.elapsed() < self.election_timeout_max()
        });
        (alone || acked).then_some(term)
    }

    /// The term, if this node leads and does not transfer its leadership.
    pub(crate) fn term_to_propose_in(&self) -> Option<u64> {
        let state = self.state();
        let transfers = self.transfer_term.load(Ordering::Acquire) == state.term;
        (state.leading && !transfers).then_some(state.term)
    }

    /// From here on this node proposes nothing and has no lease in that term: its successor may win at once.
    pub(crate) fn begin_transfer(&self, term: u64) {
        self.transfer_term.store(term, Ordering::Release);
    }

    /// The transfer was given up before the successor learned of it.
    pub(crate) fn cancel_transfer(&self) {
        self.transfer_term.store(0, Ordering::Release);
    }

    /// Notes an accepted message of a leader.
    pub(crate) fn record_contact(&self, term: u64) {
        self.contact.touch();
        self.contact_term.send_if_modified(|last| std::mem::replace(last, term) != term);
    }

    /// The term of the leader of the last contact, as it changes.
    pub(crate) fn subscribe_contact_term(&self) -> watch::Receiver<u64> {
        self.contact_term.subscribe()
    }

    /// Whether this node has had contact with the leader of a term. After a restart the vote still names the leader of
    /// the time before.
    pub(crate) fn had_contact_in(&self, term: u64) -> bool {
        *self.contact_term.borrow() == term
    }

    /// Time since the last contact with a leader; zero on a leader with a valid lease. On a leader that loses its
    /// majority the time counts from the last call of this function.
    pub(crate) fn since_contact(&self) -> Option<Duration> {
        if self.lease().is_some() {
            self.contact.touch();
            return Some(Duration::ZERO);
        }
        self.contact.last().map(|at| at.elapsed())
    }

    /// The number of the contact of now. A leader was heard since it began, at least once a second.
    pub(crate) fn contact(&self) -> u64 {
        self.contact.number()
    }

    /// This node has applied what the leader had committed when it was asked, in the contact of this number.
    pub(crate) fn caught_up(&self, contact: u64) {
        self.contact.caught_up(contact);
    }

    /// Whether this node has caught up in the contact of now.
    pub(crate) fn has_caught_up(&self) -> bool {
        self.contact.has_caught_up()
    }

    /// Whether a leader was heard within a second, and this node has caught up since it was last not. Takes no lock.
    pub(crate) fn is_current(&self) -> bool {
        self.contact.is_current()
    }
}
