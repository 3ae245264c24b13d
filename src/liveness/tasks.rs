//! The tasks behind a node's liveness: one that follows the table and decides, and for each other member one that sends
//! messages.

use super::clock::LATENESS_MAX;
use super::driver::{CHANNEL_STREAM, Driver};
use super::leader::Decision;
use super::messages::{Message, Reply};
use super::removals::{Applied, ProposalEnd};
use raft::{AppliedEntry, Node, NodeId, ProposeError};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use storage::command::{Cause, Name, Origin, Removal, RemoveBrokers, SetEvictionGuard};
use storage::outcome::{Event, RemovedBy};
use storage::route_info::BrokerKey;
use storage::{Change, Command};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, MissedTickBehavior, sleep, timeout};

/// Between two ticks.
const TICK_EVERY: Duration = Duration::from_millis(50);
const _: () = assert!(TICK_EVERY.as_millis() * 2 < LATENESS_MAX.as_millis(), "a tick is no pause");
/// Between two looks at the members, once some are known.
const MEMBERS_EVERY: Duration = Duration::from_secs(1);
/// For a message and its answer.
const MESSAGE_WITHIN: Duration = Duration::from_secs(1);
/// For a proposal.
const PROPOSE_WITHIN: Duration = Duration::from_millis(2_500);
/// After an unknown outcome: from then on nothing more of the proposal can enter the log.
const DOUBT_FOR: Duration = Duration::from_secs(1);

/// Runs until the driver is stopped.
pub(super) fn start(driver: &Arc<Driver>, node: Node) {
    let follower = Follower {
        driver: driver.clone(),
        node,
        members: Vec::new(),
        looked: None,
        senders: BTreeMap::new(),
    };
    spawn(driver, follower.run());
}

fn spawn(driver: &Arc<Driver>, task: impl Future<Output = ()> + Send + 'static) -> tokio::task::AbortHandle {
    let stop = driver.stop.clone();
    tokio::spawn(async move {
        stop.run_until_cancelled(task).await;
    })
    .abort_handle()
}

/// Follows members, leadership and table, and decides when this node leads.
struct Follower {
    driver: Arc<Driver>,
    node: Node,
    members: Vec<(NodeId, bool)>,
    looked: Option<Instant>,
    senders: BTreeMap<NodeId, Sender>,
}

/// The task that sends messages to another member.
struct Sender(tokio::task::AbortHandle);

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Follower {
    async fn run(mut self) {
        // Subscribed before the table is read: nothing falls between the two.
        let mut entries = self.node.entries();
        let mut leadership = self.node.leadership();
        leadership.mark_changed();
        self.follow_all();
        let mut tick = tokio::time::interval(TICK_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let entry = tokio::select! {
                biased;
                _ = tick.tick() => None,
                () = self.driver.decider.notified() => None,
                changed = leadership.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let now = *leadership.borrow_and_update();
                    self.driver.with(|tracker, _| tracker.set_leadership(now.term, now.leader, now.leading));
                    None
                }
                entry = entries.recv() => Some(entry),
            };
            if let Some(entry) = entry
                && !self.follow(entry, &mut entries)
            {
                return;
            }
            self.look_at_members();
            self.decide();
        }
    }

    /// Follows one entry and all that wait behind it. `false`: there will be no more.
    fn follow(
        &self,
        first: Result<Arc<AppliedEntry>, RecvError>,
        entries: &mut broadcast::Receiver<Arc<AppliedEntry>>,
    ) -> bool {
        let mut next = first;
        loop {
            match next {
                Ok(entry) if entry.replaced => self.follow_all(),
                Ok(entry) => self.applied(&entry),
                Err(RecvError::Lagged(_)) => self.follow_all(),
                Err(RecvError::Closed) => return false,
            }
            next = match entries.try_recv() {
                Ok(entry) => Ok(entry),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Closed) => return false,
                Err(TryRecvError::Lagged(missed)) => Err(RecvError::Lagged(missed)),
            };
        }
    }

    fn follow_all(&self) {
        self.driver.with(|tracker, now| tracker.follow_all(now, &self.node.table()));
    }

    fn applied(&self, entry: &AppliedEntry) {
        let applied = what_was_applied(entry);
        let to_close = self
            .driver
            .with(|tracker, now| tracker.applied(now, entry.id.index, &applied, &self.node.table()));
        self.driver.close(to_close.into_iter().collect());
    }

    fn look_at_members(&mut self) {
        let now = Instant::now();
        if !self.members.is_empty() && self.looked.is_some_and(|looked| now < looked + MEMBERS_EVERY) {
            return;
        }
        self.looked = Some(now);
        let status = self.node.status();
        let members: Vec<_> = status.members.iter().map(|m| (m.member.id, m.voter)).collect();
        // Set each time: a member that left is dropped only once it is unreachable.
        self.driver.with(|tracker, now| tracker.set_members(now, &members));
        if members == self.members {
            return;
        }
        let others: Vec<_> =
            members.iter().map(|(node, _)| *node).filter(|n| *n != self.driver.node_id).collect();
        self.senders.retain(|node, _| others.contains(node));
        for node in others {
            self.senders.entry(node).or_insert_with(|| {
                Sender(spawn(&self.driver, send(self.driver.clone(), self.node.clone(), node)))
            });
        }
        self.members = members;
    }

    fn decide(&self) {
        let decision = self.driver.with_leader(|tracker, now, leader| {
            tracker.tick(now, leader);
            leader.map(|leader| (tracker.decide(now, leader), leader.term))
        });
        let Some((Decision { removals, guard }, term)) = decision else { return };
        if !removals.is_empty() {
            spawn(&self.driver, propose_removals(self.driver.clone(), self.node.clone(), term, removals));
        }
        if let Some(active) = guard {
            spawn(&self.driver, propose_guard(self.driver.clone(), self.node.clone(), term, active));
        }
    }
}

/// What an entry means for liveness. Removals count only when they happen, not when a start applies them again.
fn what_was_applied(entry: &AppliedEntry) -> Applied {
    let key =
        |cluster: &Name, address: &Name| BrokerKey { cluster: cluster.clone(), address: address.clone() };
    let mut applied = Applied::default();
    for event in &entry.events {
        match event {
            Event::BrokerRegistered { cluster, address, .. } => {
                applied.touched.insert(key(cluster, address));
            }
            Event::BrokerRemoved { cluster, address, cause, .. } => {
                let broker = key(cluster, address);
                match cause {
                    RemovedBy::Removal(Cause::Expired { .. }) if !entry.replay => {
                        applied.expired.push(broker.clone());
                    }
                    RemovedBy::Removal(Cause::Disconnected) if !entry.replay => {
                        applied.disconnected.push(broker.clone());
                    }
                    _ => {}
                }
                applied.touched.insert(broker);
            }
            Event::EvictionGuardChanged { active } => applied.guard = Some(*active),
            _ => {}
        }
    }
    applied
}

/// Sends what is due to another member, one message at a time.
async fn send(driver: Arc<Driver>, node: Node, to: NodeId) {
    let mut urgent = driver.urgent.subscribe();
    loop {
        urgent.mark_unchanged();
        let message = match driver.with(|tracker, now| tracker.poll(now, to)) {
            Ok(message) => message,
            Err(wait) => {
                // Neither the end of the wait nor the end of the channel matters: look again.
                let _ = timeout(wait, urgent.changed()).await;
                continue;
            }
        };
        match deliver(&node, to, &message).await {
            Ok(reply) => driver.with(|tracker, now| tracker.answered(now, to, reply)),
            Err(reason) => {
                tracing::debug!(to, reason, "liveness message got no answer");
                driver.with(|tracker, now| tracker.failed(now, to, &message));
            }
        }
    }
}

async fn deliver(node: &Node, to: NodeId, message: &Message) -> Result<Reply, String> {
    let bytes = message.encode().map_err(|error| error.to_string())?;
    let reply = node.message(to, CHANNEL_STREAM, bytes, Instant::now() + MESSAGE_WITHIN).await;
    let reply = reply.map_err(|error| error.to_string())?;
    Reply::decode(&reply).map_err(|error| error.to_string())
}

async fn propose_removals(driver: Arc<Driver>, node: Node, term: u64, brokers: Vec<Removal>) {
    let change = Change::RemoveBrokers(RemoveBrokers { brokers, decided_in_term: Some(term) });
    let end = propose(&driver, &node, term, change).await;
    driver.with(|tracker, now| tracker.proposed(now, term, end));
}

async fn propose_guard(driver: Arc<Driver>, node: Node, term: u64, active: bool) {
    let change = Change::SetEvictionGuard(SetEvictionGuard { active });
    let end = propose(&driver, &node, term, change).await;
    driver.with(|tracker, now| tracker.guard_proposed(now, term, end));
}

/// Proposes what the leader of a term decided.
async fn propose(driver: &Driver, node: &Node, term: u64, change: Change) -> ProposalEnd {
    let origin = Origin { node: driver.node_id, peer: "".into(), unix_ms: driver.runtime.unix_ms() };
    let deadline = Instant::now() + PROPOSE_WITHIN;
    match node.propose_in_term(term, Command { origin, change }, deadline).await {
        Ok(proposed) => ProposalEnd::Applied(proposed.position.index),
        Err(error) => {
            tracing::debug!(term, %error, "a decision was not proposed; it is made again from what is then known");
            if matches!(error, ProposeError::Refused(_)) {
                return ProposalEnd::Refused;
            }
            sleep(DOUBT_FOR).await;
            ProposalEnd::Unknown(node.status().last.map_or(0, |id| id.index))
        }
    }
}
