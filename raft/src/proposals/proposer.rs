//! From wherever a command was asked for to the leader, and back with the outcome.

use crate::api::{NodeId, ProposeError, Proposed};
use crate::leader::core::Core;
use crate::peer::connection::{CallError, Limit};
use crate::peer::handshake::Lane;
use crate::peer::message::{Reply, Request};
use crate::proposals::batcher::COMMAND_BYTES_MAX;
use crate::proposals::queue::{Answered, Waiting};
use std::time::Duration;
use storage::{Command, format};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

/// Between two looks at who leads, while nobody does.
const LEADER_PAUSE: Duration = Duration::from_millis(20);

impl Core {
    /// Carries a command out through the leader, and waits until this node has applied it.
    pub(crate) async fn propose(
        &self,
        command: Command,
        deadline: Instant,
    ) -> Result<Proposed, ProposeError> {
        let mut why = "no leader is known".to_owned();
        loop {
            if let Some(reason) = self.refuses_commands() {
                return Err(ProposeError::Refused(reason));
            }
            if Instant::now() >= deadline {
                return Err(ProposeError::Refused(why));
            }
            let answered = match self.leader_to_ask() {
                None => None,
                Some(leader) if leader == self.id() => {
                    Some(self.submit(command.clone(), None, deadline).await)
                }
                Some(leader) => match self.forward(leader, &command, deadline).await {
                    Ok(answered) => Some(answered),
                    // Nothing was sent, so it may be tried again, by then perhaps with another leader.
                    Err(reason) => {
                        why = format!("the leader, node {leader}, is not reached: {reason}");
                        None
                    }
                },
            };
            match answered {
                Some(Answered::Done { position, outcome }) => {
                    return self.applied_here(Proposed { position, outcome }, deadline).await;
                }
                Some(Answered::Refused(reason)) => return Err(ProposeError::Refused(reason)),
                Some(Answered::Unknown(reason)) => return Err(ProposeError::Unknown(reason)),
                Some(Answered::NotLeader) | None => self.leader_pause(deadline).await,
            }
        }
    }

    /// Carries out what the leader of a term decided by itself. Never forwarded.
    pub(crate) async fn propose_in_term(
        &self,
        term: u64,
        command: Command,
        deadline: Instant,
    ) -> Result<Proposed, ProposeError> {
        if let Some(reason) = self.refuses_commands() {
            return Err(ProposeError::Refused(reason));
        }
        match self.submit(command, Some(term), deadline).await {
            Answered::Done { position, outcome } => {
                self.applied_here(Proposed { position, outcome }, deadline).await
            }
            Answered::Refused(reason) => Err(ProposeError::Refused(reason)),
            Answered::Unknown(reason) => Err(ProposeError::Unknown(reason)),
            Answered::NotLeader => {
                Err(ProposeError::Refused(format!("this node does not lead in term {term}")))
            }
        }
    }

    /// Hands a command to this node's batcher; done only if this node leads.
    pub(crate) async fn submit(&self, command: Command, term: Option<u64>, deadline: Instant) -> Answered {
        let encoded = match format::encode("command", &command.change) {
            Ok(encoded) => encoded,
            Err(e) => return Answered::Refused(e.to_string()),
        };
        if encoded.len() > COMMAND_BYTES_MAX {
            let bytes = encoded.len();
            return Answered::Refused(format!("{bytes} bytes are too many, at most {COMMAND_BYTES_MAX}"));
        }
        let hash = xxhash_rust::xxh3::xxh3_128_with_seed(&encoded, self.hash_seed);
        let (answer, answered) = oneshot::channel();
        let bytes = encoded.len();
        let waiting = Waiting { command, bytes, hash, term, deadline, answer };
        match timeout_at(deadline, self.queue.send(waiting)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Answered::Refused("the node is stopping".into()),
            Err(_) => return Answered::Refused("too many commands wait".into()),
        }
        match timeout_at(deadline, answered).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(_)) => Answered::Unknown("the node stopped while it was under way".into()),
            Err(_) => Answered::Unknown("not committed in time".into()),
        }
    }

    /// Asks the leader, with the time that is left. An error means that nothing was sent.
    async fn forward(
        &self,
        leader: NodeId,
        command: &Command,
        deadline: Instant,
    ) -> Result<Answered, String> {
        let request =
            Request::Propose { command: Box::new(command.clone()), time_left_ms: time_left_ms(deadline) };
        let reply = self.peers.peer(leader).call(Lane::Call, &request, Limit::Deadline(deadline)).await;
        match reply {
            Ok(Reply::Proposed { position, outcome }) => Ok(Answered::Done { position, outcome }),
            Ok(Reply::Refused(reason)) => Ok(Answered::Refused(reason)),
            Ok(Reply::Unknown(reason)) => Ok(Answered::Unknown(reason)),
            Ok(Reply::NotLeader) => Ok(Answered::NotLeader),
            Ok(Reply::Unavailable(reason)) => Err(reason),
            Ok(other) => Ok(Answered::Unknown(format!("node {leader} answered {other:?}"))),
            Err(CallError::NotSent(reason)) => Err(reason),
            Err(CallError::NoAnswer(reason)) => {
                Ok(Answered::Unknown(format!("node {leader}, the leader, gave no answer: {reason}")))
            }
        }
    }

    /// Answers a command that another node forwarded. Never forwarded again.
    pub(crate) async fn propose_for(&self, command: Command, time_left_ms: u64) -> Reply {
        if let Some(reason) = self.refuses_commands() {
            // Another node may lead in a moment: who asked tries again.
            return Reply::Unavailable(reason);
        }
        let deadline = Instant::now() + Duration::from_millis(time_left_ms);
        match self.submit(command, None, deadline).await {
            Answered::Done { position, outcome } => Reply::Proposed { position, outcome },
            Answered::Refused(reason) => Reply::Refused(reason),
            Answered::Unknown(reason) => Reply::Unknown(reason),
            Answered::NotLeader => Reply::NotLeader,
        }
    }

    async fn applied_here(&self, proposed: Proposed, deadline: Instant) -> Result<Proposed, ProposeError> {
        match self.wait_applied(proposed.position.index, deadline).await {
            Ok(()) => Ok(proposed),
            Err(e) => Err(ProposeError::Unknown(format!("committed, but: {e}"))),
        }
    }

    /// Waits until leadership changes, a moment, or the deadline.
    pub(crate) async fn leader_pause(&self, deadline: Instant) {
        let mut leadership = self.leadership.subscribe();
        let pause = async {
            tokio::select! {
                biased;
                _ = leadership.changed() => {}
                () = sleep(LEADER_PAUSE) => {}
            }
        };
        // Whatever comes first.
        let _ = timeout_at(deadline, pause).await;
    }
}

/// Milliseconds until a deadline.
pub(crate) fn time_left_ms(deadline: Instant) -> u64 {
    let left = deadline.saturating_duration_since(Instant::now());
    u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
}
