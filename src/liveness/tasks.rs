//! The tasks behind a node's liveness: one that follows the table and decides, and for each other member one that
//! sends reports and one that asks.

use super::clock::millis;
use super::core::{Core, Leader, Left};
use super::decide::{Batch, Decision};
use super::removals::ProposalEnd;
use super::report::{Ask, Content, LANE_ASKS, LANE_REPORTS, Message, Reply};
use super::shell::Shell;
use super::stream::REPORT_EVERY;
use raft::{AppliedEntry, Node, NodeId, Standing};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use storage::command::{Cause, Origin, RemoveBrokers};
use storage::outcome::{Event, RemovedBy};
use storage::route_info::BrokerKey;
use storage::{Change, Command};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, MissedTickBehavior};

/// Between two ticks.
const TICK_EVERY: Duration = Duration::from_millis(50);
/// Between two looks at the members, once some are known.
const MEMBERS_EVERY: Duration = Duration::from_secs(1);
/// For a report or a question and its answer.
const MESSAGE_WITHIN: Duration = Duration::from_secs(1);
/// For the proposal of a removal.
const PROPOSE_WITHIN: Duration = Duration::from_millis(2_500);

/// Runs until it is told to stop.
pub(super) fn start(shell: &Arc<Shell>, node: Node) {
    let follower = Follower {
        shell: shell.clone(),
        node,
        members: Vec::new(),
        looked: None,
        recovered: false,
        tasks: BTreeMap::new(),
    };
    spawn(shell, follower.run());
}

fn spawn(shell: &Arc<Shell>, task: impl Future<Output = ()> + Send + 'static) -> tokio::task::AbortHandle {
    let stop = shell.stop.clone();
    tokio::spawn(async move {
        stop.run_until_cancelled(task).await;
    })
    .abort_handle()
}

/// Follows members, leadership and table, and decides when this node leads.
struct Follower {
    shell: Arc<Shell>,
    node: Node,
    members: Vec<(NodeId, bool)>,
    looked: Option<Instant>,
    /// At the last look this node had applied what was committed when it started.
    recovered: bool,
    tasks: BTreeMap<NodeId, PeerTasks>,
}

/// What runs for another member.
struct PeerTasks {
    voter: bool,
    ask: watch::Sender<Option<Ask>>,
    running: Vec<tokio::task::AbortHandle>,
}

impl Drop for PeerTasks {
    fn drop(&mut self) {
        self.running.iter().for_each(tokio::task::AbortHandle::abort);
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
                () = self.shell.decider.notified() => None,
                changed = leadership.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let now = *leadership.borrow_and_update();
                    self.shell.with(|core, _| core.leadership(now.term, now.leader));
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
                Err(RecvError::Lagged(missed)) => {
                    tracing::warn!(
                        "{missed} entries were applied unseen: no min-broker-id notices go out for them"
                    );
                    self.follow_all();
                }
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
        self.shell.with(|core, now| {
            let table = self.node.table();
            core.follow_all(now, table.live_brokers());
            core.followed(now, table.revision().map_or(0, |id| id.index), Left::default());
        });
    }

    fn applied(&self, entry: &AppliedEntry) {
        let happened = Happened::of(entry);
        let to_close = self.shell.with(|core, now| {
            let table = self.node.table();
            let left = happened.left(core);
            for broker in &happened.touched {
                core.follow(now, broker, table.live(broker), !entry.replay);
            }
            core.followed(now, entry.id.index, left);
            let gone = happened.expired.iter().filter(|broker| table.live(broker).is_none());
            gone.flat_map(|broker| core.connections_of(broker)).collect::<BTreeSet<_>>()
        });
        self.shell.close(to_close.into_iter().collect());
        let leads = self.node.leadership().borrow().leading;
        let mut notices = self.shell.notices.lock().unwrap_or_else(PoisonError::into_inner);
        let due = notices.applied(Instant::now(), entry, leads);
        drop(notices);
        self.shell.hand_out(due);
    }

    fn look_at_members(&mut self) {
        let now = Instant::now();
        if !self.members.is_empty() && self.looked.is_some_and(|looked| now < looked + MEMBERS_EVERY) {
            return;
        }
        self.looked = Some(now);
        let status = self.node.status();
        let members: Vec<_> = status.members.iter().map(|m| (m.member.id, m.voter)).collect();
        // What was applied by the last look has been followed by now.
        let complete = std::mem::replace(&mut self.recovered, status.standing == Standing::Recovered);
        // Told each time: a member that left is dropped only once it is silent.
        self.shell.with(|core, now| {
            core.members(now, &members);
            core.complete |= complete;
        });
        if members == self.members {
            return;
        }
        let others = members.iter().filter(|(node, _)| *node != self.shell.node_id);
        self.tasks.retain(|node, tasks| members.contains(&(*node, tasks.voter)));
        for (node, voter) in others {
            self.tasks.entry(*node).or_insert_with(|| peer_tasks(&self.shell, &self.node, *node, *voter));
        }
        self.members = members;
    }

    fn decide(&self) {
        let decision = self.shell.with_leader(|core, now, leader| {
            core.tick(now, leader);
            if leader.is_some() && core.wants_last_index(now) {
                let last = self.node.status().last.map_or(0, |id| id.index);
                core.last_index(now, last);
            }
            leader.map(|leader: &Leader<'_>| (core.decide(now, leader), leader.term))
        });
        let term = decision.as_ref().map(|(_, term)| *term);
        let mut notices = self.shell.notices.lock().unwrap_or_else(PoisonError::into_inner);
        let due = notices.leads(Instant::now(), term);
        drop(notices);
        self.shell.hand_out(due);
        let Some((Decision { removal, ask }, _)) = decision else { return };
        if let Some((ask, nodes)) = ask {
            for tasks in nodes.iter().filter_map(|node| self.tasks.get(node)) {
                tasks.ask.send_replace(Some(ask));
            }
        }
        if let Some(batch) = removal {
            spawn(&self.shell, propose(self.shell.clone(), self.node.clone(), batch));
        }
    }
}

/// What an entry means for liveness.
#[derive(Default)]
struct Happened {
    touched: BTreeSet<BrokerKey>,
    expired: Vec<BrokerKey>,
    disconnected: Vec<BrokerKey>,
}

impl Happened {
    fn of(entry: &AppliedEntry) -> Self {
        let mut happened = Self::default();
        for event in &entry.events {
            let (Event::BrokerRegistered { cluster, address, .. }
            | Event::BrokerRemoved { cluster, address, .. }) = event
            else {
                continue;
            };
            let broker = BrokerKey { cluster: cluster.clone(), address: address.clone() };
            match event {
                Event::BrokerRemoved { cause: RemovedBy::Removal(cause), .. } if !entry.replay => match cause
                {
                    Cause::Expired { .. } => happened.expired.push(broker.clone()),
                    Cause::Disconnected => happened.disconnected.push(broker.clone()),
                    Cause::Asked => {}
                },
                _ => {}
            }
            happened.touched.insert(broker);
        }
        happened
    }

    /// Who leaves; to be asked before the ledger follows.
    fn left(&self, core: &Core) -> Left {
        Left {
            expired: self.expired.len(),
            disconnected: self.disconnected.len(),
            guarded: core.guarded(self.expired.iter().chain(&self.disconnected)),
        }
    }
}

fn peer_tasks(shell: &Arc<Shell>, node: &Node, to: NodeId, voter: bool) -> PeerTasks {
    let (ask, asked) = watch::channel(None);
    let mut running = vec![spawn(shell, send_asks(node.clone(), to, asked))];
    if voter {
        running.push(spawn(shell, send_reports(shell.clone(), node.clone(), to)));
    }
    PeerTasks { voter, ask, running }
}

async fn send_reports(shell: Arc<Shell>, node: Node, to: NodeId) {
    let mut urgent = shell.urgent.subscribe();
    loop {
        urgent.mark_unchanged();
        let Some(report) = shell.with(|core, now| core.poll(now, to)) else {
            // Neither the end of the wait nor the end of the channel matters: look again.
            let _ = tokio::time::timeout(REPORT_EVERY, urgent.changed()).await;
            continue;
        };
        if matches!(report.content, Content::Full(_)) && !tell_of_protection(&shell, &node, to).await {
            shell.with(|core, now| core.failed(now, to));
            continue;
        }
        let deadline = Instant::now() + MESSAGE_WITHIN;
        let reply = match Message::Report(report).encode() {
            Ok(bytes) => node.message(to, LANE_REPORTS, bytes, deadline).await.map_err(|e| e.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match reply.and_then(|bytes| Reply::decode(&bytes).map_err(|error| error.to_string())) {
            Ok(Reply::Report(answer)) => shell.with(|core, now| core.answered(now, to, answer)),
            Ok(other) => {
                tracing::debug!(to, ?other, "liveness report not understood");
                shell.with(|core, now| core.failed(now, to));
            }
            Err(reason) => {
                tracing::debug!(to, reason, "liveness report got no answer");
                shell.with(|core, now| core.failed(now, to));
            }
        }
    }
}

/// Goes ahead of a full report, in its lane: the receiver may be new, and take those that the guard keeps for gone.
/// `false`: it did not arrive, and neither must the report.
async fn tell_of_protection(shell: &Shell, node: &Node, to: NodeId) -> bool {
    let Some(protected_for) = shell.with(Core::protected_for) else { return true };
    let Ok(bytes) = Message::Protecting(millis(protected_for)).encode() else { return true };
    let told = node.message(to, LANE_REPORTS, bytes, Instant::now() + MESSAGE_WITHIN).await;
    if let Err(error) = &told {
        tracing::debug!(to, %error, "news of the guard got no answer");
    }
    told.is_ok()
}

/// Sends the newest question; one that comes while another is on its way waits, and the last one wins.
async fn send_asks(node: Node, to: NodeId, mut asked: watch::Receiver<Option<Ask>>) {
    while asked.changed().await.is_ok() {
        let Some(ask) = *asked.borrow_and_update() else { continue };
        let Ok(bytes) = Message::Ask(ask).encode() else { continue };
        if let Err(error) = node.message(to, LANE_ASKS, bytes, Instant::now() + MESSAGE_WITHIN).await {
            tracing::debug!(to, %error, "liveness question got no answer");
        }
    }
}

async fn propose(shell: Arc<Shell>, node: Node, batch: Batch) {
    let Batch { number, term, brokers } = batch;
    let names: Vec<_> = brokers.iter().map(|gone| gone.address.clone()).collect();
    let origin = Origin { node: shell.node_id, peer: "".into(), unix_ms: shell.runtime.unix_ms() };
    let change = Change::RemoveBrokers(RemoveBrokers { brokers, decided_in_term: Some(term) });
    let proposed =
        node.propose_in_term(term, Command { origin, change }, Instant::now() + PROPOSE_WITHIN).await;
    let end = match proposed {
        Ok(_) => ProposalEnd::Applied,
        Err(error) => {
            tracing::debug!(term, brokers = ?names, %error, "removal not proposed; decided again from what is then known");
            ProposalEnd::from(error)
        }
    };
    shell.with(|core, now| core.proposed(now, number, end));
}
