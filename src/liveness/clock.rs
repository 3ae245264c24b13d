//! The in-service clock: by it every idle time is measured. And the contact with other nodes that it depends on.

use raft::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// What a new clock shows: moments before this process began have a place, too.
const BEGIN: Duration = Duration::from_secs(24 * 3600);
/// A tick that is later than this was held up: the process did not run, and the excess is left out.
pub(super) const LATENESS_MAX: Duration = Duration::from_millis(200);
/// After a pause of this length peers may have closed their connections and opened new ones: a Java client waits three
/// seconds for an answer.
const LONG_PAUSE: Duration = Duration::from_secs(3);
/// Contact with a leader or with a majority lasts this long after its last proof.
pub(super) const CONTACT_FOR: Duration = Duration::from_secs(1);
/// A node that has not reached its leader for this long pings the voters.
pub(super) const PING_AFTER: Duration = Duration::from_millis(400);
/// Between two pings of one voter.
const PING_EVERY: Duration = Duration::from_millis(200);
/// After a cut, TCP delivers what a peer sent before it this late: it sends again at growing intervals.
const LATE_AFTER_CUT: Duration = Duration::from_secs(10);
/// After a pause, this node reads what waits in its sockets this late.
const LATE_AFTER_PAUSE: Duration = Duration::from_secs(2);

/// Whole milliseconds, as they are sent.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What the clock shows at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Now {
    /// Advances while this process runs. Message timers and reachability use it.
    pub(super) running: Duration,
    /// Advances while this process runs *and* is in contact with a leader that has a quorum, or is it.
    pub(super) in_service: Duration,
}

/// Turns monotonic time into running time and in-service time.
///
/// Every call into the tracker goes through [`advance`](Self::advance), a tick at the latest. A longer gap between two
/// calls means that the process was stopped, starved or suspended and could hear no broker.
#[derive(Debug)]
pub(super) struct InServiceClock {
    last: Instant,
    now: Now,
    /// Running time of the last proof that a leader with a quorum is reached.
    leader_contact: Option<Duration>,
    /// Running time of the last proof that a majority of the voters is reached.
    majority_contact: Option<Duration>,
    trust_disconnects_after: Duration,
    pauses: u64,
    /// Before its first reading nothing asked the clock regularly.
    read: bool,
}

impl InServiceClock {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            last: now,
            now: Now { running: BEGIN, in_service: BEGIN },
            leader_contact: None,
            majority_contact: None,
            trust_disconnects_after: Duration::ZERO,
            pauses: 0,
            read: false,
        }
    }

    /// What it shows at `now`. Never goes back, also when `now` was read before another caller's.
    pub(super) fn advance(&mut self, now: Instant) -> Now {
        let gap = now.saturating_duration_since(self.last);
        self.last = self.last.max(now);
        let before = self.now.running;
        self.now.running += gap.min(LATENESS_MAX);
        let in_service_until = self.leader_contact.map_or(Duration::ZERO, |at| at + CONTACT_FOR);
        self.now.in_service += self.now.running.min(in_service_until).saturating_sub(before);
        if gap > LATENESS_MAX {
            self.pauses += 1;
        }
        if std::mem::replace(&mut self.read, true) && gap >= LONG_PAUSE {
            self.distrust_disconnects_for(LATE_AFTER_PAUSE);
        }
        self.now
    }

    /// This node leads with a valid quorum lease, or such a leader has answered it.
    pub(super) fn reach_leader(&mut self) {
        self.leader_contact = Some(self.now.running);
        self.reach_majority();
    }

    /// A majority of the voters, this node included, has answered within [`CONTACT_FOR`].
    pub(super) fn reach_majority(&mut self) {
        if self.majority_contact.is_some() && !self.has_majority() {
            self.distrust_disconnects_for(LATE_AFTER_CUT);
        }
        self.majority_contact = Some(self.now.running);
    }

    /// Whether the last proof of contact with a leader is younger than this.
    pub(super) fn reached_leader_within(&self, age: Duration) -> bool {
        self.leader_contact.is_some_and(|at| self.now.running <= at + age)
    }

    fn has_majority(&self) -> bool {
        self.majority_contact.is_some_and(|at| self.now.running <= at + CONTACT_FOR)
    }

    fn distrust_disconnects_for(&mut self, time: Duration) {
        self.trust_disconnects_after = self.trust_disconnects_after.max(self.now.in_service + time);
    }

    /// The in-service time from which on a broker must have been heard for the end of its session to count as the
    /// peer's.
    ///
    /// While this node was cut off or paused, its connections ran into time-outs, and brokers closed them and connected
    /// again: this node then finds the old end, and maybe old heartbeats before it, sooner than the new connection. A
    /// process that has not reached a majority yet trusts all ends: its connections are as young as it is.
    pub(super) fn trust_disconnects_after(&self) -> Duration {
        if self.majority_contact.is_some() && !self.has_majority() {
            return Duration::MAX;
        }
        self.trust_disconnects_after
    }

    /// How often the process did not run.
    pub(super) fn pauses(&self) -> u64 {
        self.pauses
    }
}

/// When the other nodes answered this one: whether it reaches a majority while it has no leader. During an election it
/// does, when it is cut off it does not.
#[derive(Debug, Default)]
pub(super) struct Contact {
    /// Running time of each node's last answer.
    answers: BTreeMap<NodeId, Duration>,
    /// Running time of the last ping to each voter.
    pings: BTreeMap<NodeId, Duration>,
}

impl Contact {
    /// Whether a ping of a voter is due; if so it counts as sent.
    pub(super) fn ping(&mut self, now: Now, to: NodeId) -> bool {
        let due = self.pings.get(&to).is_none_or(|at| now.running >= *at + PING_EVERY);
        if due {
            self.pings.insert(to, now.running);
        }
        due
    }

    /// A node answered a message.
    pub(super) fn answered(&mut self, now: Now, from: NodeId) {
        self.answers.insert(from, now.running);
    }

    /// Whether a majority of the voters, this node included if it is one, has answered within [`CONTACT_FOR`].
    pub(super) fn has_majority(&self, now: Now, this_node: NodeId, members: &[(NodeId, bool)]) -> bool {
        let lately = |at: &Duration| now.running <= *at + CONTACT_FOR;
        let reached = |node: NodeId| node == this_node || self.answers.get(&node).is_some_and(lately);
        let voters = members.iter().filter(|(_, votes)| *votes).map(|(node, _)| *node);
        voters.clone().filter(|node| reached(*node)).count() * 2 > voters.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A clock that is read every 100 ms, and in contact with a leader.
    struct Read {
        clock: InServiceClock,
        at: Instant,
    }

    impl Read {
        fn new() -> Self {
            let at = Instant::now();
            let mut clock = InServiceClock::new(at);
            clock.advance(at);
            clock.reach_leader();
            Self { clock, at }
        }

        fn run(&mut self, time: Duration, contact: bool) {
            for _ in 0..time.as_millis() / 100 {
                self.jump(ms(100));
                if contact {
                    self.clock.reach_leader();
                }
            }
        }

        fn jump(&mut self, time: Duration) {
            self.at += time;
            self.clock.advance(self.at);
        }

        fn shows(&self) -> (Duration, Duration) {
            (self.clock.now.running - BEGIN, self.clock.now.in_service - BEGIN)
        }
    }

    #[test]
    fn a_pause_counts_for_no_more_than_the_allowed_lateness() {
        let mut read = Read::new();
        read.run(ms(500), true);
        read.jump(ms(10_000));
        assert_eq!(read.shows(), (ms(700), ms(700)));
        let earlier = read.at - ms(5_000);
        read.clock.advance(earlier);
        assert_eq!((read.shows(), read.clock.pauses()), ((ms(700), ms(700)), 1), "it never goes back");
    }

    #[test]
    fn time_without_a_leader_is_not_in_service() {
        let mut read = Read::new();
        read.run(ms(500), true);
        read.run(ms(30_000), false);
        assert_eq!(read.shows(), (ms(30_500), ms(500) + CONTACT_FOR));
        read.clock.reach_leader();
        read.run(ms(500), true);
        assert_eq!(read.shows(), (ms(31_000), ms(1_000) + CONTACT_FOR));
        let fresh = InServiceClock::new(read.at).advance(read.at + ms(150));
        assert_eq!((fresh.running, fresh.in_service), (BEGIN + ms(150), BEGIN), "no leader was reached yet");
    }

    #[test]
    fn disconnects_count_again_some_time_after_a_cut_and_after_a_long_pause() {
        let mut read = Read::new();
        assert_eq!(read.clock.trust_disconnects_after(), Duration::ZERO);
        read.run(ms(1_000), false);
        assert_eq!(read.clock.trust_disconnects_after(), Duration::ZERO, "an election is no cut");
        read.clock.reach_majority();
        read.run(ms(1_000), false);
        assert_eq!(
            read.clock.trust_disconnects_after(),
            Duration::ZERO,
            "the majority was reached meanwhile"
        );
        read.run(ms(100), false);
        assert_eq!(read.clock.trust_disconnects_after(), Duration::MAX);
        read.clock.reach_majority();
        assert_eq!(read.clock.trust_disconnects_after(), read.clock.now.in_service + LATE_AFTER_CUT);

        let mut read = Read::new();
        read.jump(ms(2_900));
        assert_eq!(read.clock.trust_disconnects_after(), Duration::ZERO, "no peer gives up so soon");
        read.jump(LONG_PAUSE);
        assert_eq!(read.clock.trust_disconnects_after(), read.clock.now.in_service + LATE_AFTER_PAUSE);
        let mut late = InServiceClock::new(read.at);
        late.advance(read.at + LONG_PAUSE);
        assert_eq!(late.trust_disconnects_after(), Duration::ZERO, "it was not read yet");
    }

    fn now(n: u64) -> Now {
        Now { running: ms(n), in_service: ms(0) }
    }

    #[test]
    fn a_majority_of_the_voters_must_have_answered_lately() {
        let mut contact = Contact::default();
        let members = [(1, true), (2, true), (3, true), (4, false)];
        contact.answered(now(100), 4);
        assert!(!contact.has_majority(now(100), 1, &members), "a learner is no voter");
        contact.answered(now(100), 3);
        assert!(contact.has_majority(now(1_100), 1, &members));
        assert!(!contact.has_majority(now(1_101), 1, &members));
        assert!(!contact.has_majority(now(100), 4, &members), "a learner needs two voters");
        assert!(Contact::default().has_majority(now(0), 1, &[(1, true)]), "a node alone is its majority");
    }

    #[test]
    fn pings_are_paced() {
        let mut contact = Contact::default();
        let due = [(0, 2), (0, 3), (199, 2), (200, 2)].map(|(at, to)| contact.ping(now(at), to));
        assert_eq!(due, [true, true, false, true]);
    }
}
