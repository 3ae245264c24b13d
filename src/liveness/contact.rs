//! Whether this node reaches a majority while it has no leader. During an election it does, when it is cut off it does not.

use super::clock::{CONTACT_FOR, Now};
use raft::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;

/// A node that has not reached its leader for this long pings the voters.
pub(super) const PING_AFTER: Duration = Duration::from_millis(400);
/// Between two pings of one voter.
const PING_EVERY: Duration = Duration::from_millis(200);

/// When the other nodes answered this one.
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
    use super::super::tests::ms;
    use super::*;

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
