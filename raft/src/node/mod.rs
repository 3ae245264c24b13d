//! The façade: [`Node`]. `assemble` makes the owners of all rooms and starts their tasks.

mod assemble;

use crate::api::{
    AppliedEntry, Directory, LeaderState, MemberChange, MessageError, NodeId, OpenError, Options,
    PeerMessages, ProposeError, Proposed, ReadError, Status,
};
use crate::consensus::applied_state::AppliedStatePublisher;
use crate::consensus::raft::Raft;
use crate::health::status::StatusReporter;
use crate::leader::lag::LagWatch;
use crate::leader::leadership::Leadership;
use crate::local::{LocalNode, blocking};
use crate::membership::changes::MemberChanges;
use crate::membership::transfer::LeadershipTransfer;
use crate::peer::PeerNetwork;
use crate::peer::connection::Limit;
use crate::peer::handshake::ChannelKind;
use crate::peer::message::{Reply, Request};
use crate::peer::peers::Peers;
use crate::proposals::proposer::Proposer;
use crate::proposals::read_barrier::ReadBarrier;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use storage::log::Log;
use storage::runtime::Runtime;
use storage::snapshots::Snapshots;
use storage::{Command, LogId, RouteInfo};
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep, timeout};

/// To transfer leadership when stopping.
const STOP_TRANSFER_MAX: Duration = Duration::from_millis(1500);
/// To finish what is under way when stopping.
const STOP_DRAIN_MAX: Duration = Duration::from_millis(1000);
/// To end Raft, the tasks, the log; each.
const STOP_STEP_MAX: Duration = Duration::from_millis(700);

/// A node of the cluster. A cheap handle: clones are the same node.
#[derive(Clone)]
pub struct Node {
    owners: Arc<Owners>,
}

/// The owners that the façade calls.
struct Owners {
    local: Arc<LocalNode>,
    raft: Raft,
    applied: Arc<AppliedStatePublisher>,
    leadership: Arc<Leadership>,
    lag: Arc<LagWatch>,
    peers: Arc<Peers>,
    proposer: Arc<Proposer>,
    read_barrier: Arc<ReadBarrier>,
    transfer: Arc<LeadershipTransfer>,
    changes: Arc<MemberChanges>,
    status: StatusReporter,
}

/// What a node stands on.
pub struct Parts {
    /// Log and vote.
    pub log: Arc<dyn Log>,
    /// Snapshots.
    pub snapshots: Arc<dyn Snapshots>,
    /// Wall clock and randomness.
    pub runtime: Arc<dyn Runtime>,
    /// Connections to and from peers; in production [`crate::TcpPeers`] around the listening peer port.
    pub network: Arc<dyn PeerNetwork>,
    /// Random id of the data directory.
    pub directory_id: u128,
    /// The rest of what the data directory keeps.
    pub directory: Arc<dyn Directory>,
    /// Handles messages of other nodes.
    pub messages: Arc<dyn PeerMessages>,
}

impl Node {
    /// Starts the node: loads the newest snapshot, applies what is known to be committed, opens the peer port,
    /// and takes part.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn open(options: Options, parts: Parts) -> Result<Self, OpenError> {
        let (node, tasks) = assemble::assemble(options, parts).await?;
        tasks.start().await;
        Ok(node)
    }

    /// The tables as of the last applied entry. A reader keeps what it got; it never waits.
    #[must_use]
    pub fn table(&self) -> Arc<RouteInfo> {
        self.owners.applied.table()
    }

    /// Carries a command out, through the leader wherever it is, and waits until this node has applied it.
    ///
    /// # Errors
    /// [`ProposeError`]: refused or unknown, by the deadline at the latest.
    pub async fn propose(&self, command: Command, deadline: Instant) -> Result<Proposed, ProposeError> {
        self.owners.proposer.propose(command, deadline).await
    }

    /// Carries out what the leader of a term decided by itself (expiry, disconnect). Never forwarded; refused
    /// unless this node leads in exactly that term.
    ///
    /// # Errors
    /// As [`Node::propose`].
    pub async fn propose_in_term(
        &self,
        term: u64,
        command: Command,
        deadline: Instant,
    ) -> Result<Proposed, ProposeError> {
        self.owners.proposer.propose_in_term(term, command, deadline).await
    }

    /// Resolves once no leader has been known for a second: until there is one, proposals and read barriers are refused.
    pub async fn leaderless(&self) {
        self.owners.leadership.leaderless().await;
    }

    /// Read barrier: after it, [`Node::table`] holds everything that was acknowledged anywhere before the call.
    /// Gives the revision that was waited for.
    ///
    /// # Errors
    /// No leader confirmed, or this node did not catch up in time.
    pub async fn read_barrier(&self, deadline: Instant) -> Result<u64, ReadError> {
        self.owners.read_barrier.wait(deadline).await
    }

    /// Waits until this node has applied an index.
    ///
    /// # Errors
    /// Not reached by the deadline.
    pub async fn wait_applied(&self, index: u64, deadline: Instant) -> Result<(), ReadError> {
        let stop = &self.owners.local.lifecycle.stop;
        self.owners.applied.wait_for(index, deadline, stop).await
    }

    /// Last applied entry, as it moves.
    #[must_use]
    pub fn applied(&self) -> watch::Receiver<Option<LogId>> {
        self.owners.applied.watch_applied()
    }

    /// Entries as they are applied, after their tables are visible. A receiver that lags behind gets an error and
    /// must look at the tables instead.
    #[must_use]
    pub fn entries(&self) -> broadcast::Receiver<Arc<AppliedEntry>> {
        self.owners.applied.subscribe_events()
    }

    /// The leader, as it changes.
    #[must_use]
    pub fn leadership(&self) -> watch::Receiver<LeaderState> {
        self.owners.leadership.subscribe()
    }

    /// Whether this node leads right now: it has applied an entry of its own term and a quorum has acknowledged
    /// it within the last lease. Gives the term.
    #[must_use]
    pub fn is_leader_with_lease(&self) -> Option<u64> {
        self.owners.leadership.lease()
    }

    /// Whether [`Node::table`] has what was acknowledged until a few seconds ago, so that what it lacks does not exist. A
    /// node that has heard no leader for a second, and has not caught up since, cannot say so; nor can one that is behind
    /// the leader, or takes no entries. Takes no lock.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.owners.leadership.is_current() && self.owners.lag.keeps_up()
    }

    /// The report of this node.
    #[must_use]
    pub fn status(&self) -> Status {
        self.owners.status.status()
    }

    /// Transfers leadership to a voter (`None`: to the one with the longest log), and waits until it leads. Works from
    /// any node. Gives the new leader.
    ///
    /// # Errors
    /// No leader, not a voter, or it was not elected in time.
    pub async fn transfer(&self, to: Option<NodeId>, deadline: Instant) -> Result<NodeId, ProposeError> {
        self.owners.transfer.transfer(to, deadline).await
    }

    /// Changes the membership, one change at a time. Works from any node; waits until the change is committed
    /// (for a replacement: until the new node has caught up and votes).
    ///
    /// # Errors
    /// Refused with the reason (not reached, not caught up, a quorum would be lost, the leader itself), or
    /// unknown when the deadline came first.
    pub async fn change_members(&self, change: MemberChange, deadline: Instant) -> Result<(), ProposeError> {
        self.owners.changes.change(change, deadline).await
    }

    /// Sends a message to another node beside the log and waits for its answer. Messages of one channel (0 to 3) to
    /// one node arrive in the order of the calls.
    ///
    /// # Errors
    /// Not reached, or no answer by the deadline.
    pub async fn message(
        &self,
        to: NodeId,
        channel: u8,
        message: Bytes,
        deadline: Instant,
    ) -> Result<Bytes, MessageError> {
        let peer = self.owners.peers.peer(to);
        let limit = Limit::Deadline(deadline);
        match peer.call(ChannelKind::Message(channel), &Request::Message(message), limit).await {
            Ok(Reply::Message(answer)) => Ok(answer),
            Ok(other) => Err(MessageError { to, reason: format!("unexpected reply {other:?}") }),
            Err(e) => Err(MessageError { to, reason: e.to_string() }),
        }
    }

    /// Resolves when openraft's core, the log or the disk has failed; the process must then exit. Gives the reason.
    pub async fn died(&self) -> String {
        self.owners.local.lifecycle.failed().await
    }

    /// Graceful stop: refuses new commands, transfers leadership, finishes what is under way, ends all tasks and
    /// closes the log. Takes a few seconds at most.
    pub async fn shutdown(&self) {
        let Owners { local, raft, leadership, proposer, transfer, .. } = self.owners.as_ref();
        let tasks = &local.lifecycle.tasks;
        if !local.lifecycle.begin_stop() {
            tasks.wait().await;
            return;
        }
        let leads = leadership.state().leader == Some(local.id());
        if leads && local.members.load().effective.voters.len() > 1 {
            let outcome = transfer.transfer_own(None, Instant::now() + STOP_TRANSFER_MAX).await;
            tracing::info!("leadership transfer before the stop: {outcome:?}");
        }
        let drained_by = Instant::now() + STOP_DRAIN_MAX;
        while !proposer.is_idle() && Instant::now() < drained_by {
            sleep(Duration::from_millis(5)).await;
        }
        // A step that does not end in time ends with the process.
        let _ = timeout(STOP_STEP_MAX, raft.shutdown()).await;
        local.lifecycle.stop.cancel();
        tasks.close();
        let _ = timeout(STOP_STEP_MAX, tasks.wait()).await;
        let log = Arc::clone(&local.log);
        let closing = blocking(move || {
            log.close();
            Ok(())
        });
        let _ = timeout(STOP_STEP_MAX, closing).await;
    }
}

#[cfg(test)]
mod tests;
