//! Asks the leader, wherever it is, until the deadline.

use super::outcome::ProposalOutcome;
use super::wire;
use crate::api::NodeId;
use crate::leader::leadership::{LEADER_PAUSE, Leadership};
use crate::local::LocalNode;
use crate::peer::connection::Limit;
use crate::peer::handshake::ChannelKind;
use crate::peer::message::{Reply, Request};
use crate::peer::peers::Peers;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// A reply that its leader had sent before another node led arrives within this.
const REPLY_ON_ITS_WAY: Duration = Duration::from_millis(100);

/// Asks the leader, wherever it is.
pub(crate) struct LeaderClient {
    local: Arc<LocalNode>,
    leadership: Arc<Leadership>,
    peers: Arc<Peers>,
}

impl LeaderClient {
    /// A client of whichever node leads.
    pub(crate) fn new(local: Arc<LocalNode>, leadership: Arc<Leadership>, peers: Arc<Peers>) -> Self {
        Self { local, leadership, peers }
    }

    /// Asks until an outcome is final: not [`ProposalOutcome::NotLeader`]. Without a leader by the deadline, once none has
    /// been known for a second, or when this node stops, it is [`ProposalOutcome::Refused`]. A request that was sent to a
    /// leader that is replaced ends as [`ProposalOutcome::Unknown`]: what waits behind it goes to the new one.
    ///
    /// - `here`: carries it out if this node leads.
    /// - `request`: the request to another leader, with the time that is left, in milliseconds.
    /// - `done`: reads the reply of what was carried out, and gives any other reply back.
    pub(crate) async fn ask<T, F: Future<Output = ProposalOutcome<T>>>(
        &self,
        deadline: Instant,
        here: impl Fn() -> F,
        request: impl Fn(u64) -> Request,
        done: impl Fn(Reply) -> Result<T, Reply>,
    ) -> ProposalOutcome<T> {
        let mut why = "no leader is known".to_owned();
        loop {
            if self.local.lifecycle.is_stopping() {
                return ProposalOutcome::Refused("the node is stopping".into());
            }
            if Instant::now() >= deadline {
                return ProposalOutcome::Refused(why);
            }
            if let Some(leader) = self.leadership.leader_to_ask() {
                let asked = async {
                    if leader == self.local.id() {
                        here().await
                    } else {
                        let peer = self.peers.peer(leader);
                        let request = request(time_left_ms(deadline));
                        let called = peer.call(ChannelKind::Call, &request, Limit::Deadline(deadline)).await;
                        wire::outcome(leader, called, &done)
                    }
                };
                let outcome = tokio::select! {
                    biased;
                    outcome = asked => outcome,
                    () = self.lost(leader) => {
                        ProposalOutcome::Unknown(format!("node {leader} leads no more and has not answered"))
                    }
                };
                match outcome {
                    ProposalOutcome::NotLeader(reason) => why = reason,
                    last => return last,
                }
            }
            tokio::select! {
                biased;
                () = self.pause(deadline) => {}
                () = self.leadership.leaderless() => return ProposalOutcome::Refused(why),
            }
        }
    }

    /// Resolves when another node leads than the one that was asked, or none: its answer may never come.
    async fn lost(&self, leader: NodeId) {
        tokio::select! {
            biased;
            () = self.leadership.replaced(leader) => sleep(REPLY_ON_ITS_WAY).await,
            () = self.leadership.leaderless() => {}
        }
    }

    /// Waits until the leader changes, a moment, or the deadline.
    pub(crate) async fn pause(&self, deadline: Instant) {
        let mut leadership = self.leadership.subscribe();
        let pause = async {
            tokio::select! {
                biased;
                _ = leadership.changed() => {}
                () = sleep(LEADER_PAUSE) => {}
            }
        };
        // At the deadline the caller sees that it has passed.
        let _ = timeout_at(deadline, pause).await;
    }
}

fn time_left_ms(deadline: Instant) -> u64 {
    let left = deadline.saturating_duration_since(Instant::now());
    u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
}
