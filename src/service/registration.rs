//! REGISTER_BROKER at the edge.
//!
//! ```text
//! checksum → same bytes at the same group version? ──yes──▶ confirm by the leader ──▶ answer
//!                     │ no                                      ▲      │ unknown there
//!                     ▼                                         │      ▼
//!   read what is new, compare with the table ─changes nothing───┘   propose whole ──▶ answer
//!                     │ differs                                        ▲
//!                     └──▶ propose the difference ──conflict twice─────┘
//! ```
//!
//! A broker registers in full with every node every 10 to 30 s, so the first line is the one that counts: it parses
//! nothing and writes nothing. To ensure correctness:
//! - No registration is answered with success while its broker is not in this node's table (but for one that lost
//!   against a higher stateVersion).
//! - What waited never takes back a later registration of its broker that was carried out meanwhile.
//! - Waiting for the leader's confirmation happens beside the connection's other requests; what is proposed keeps
//!   their order.

use super::reading::{Look, Reading};
use super::{BROKER_NAMES_BYTES_MAX, Progress, Service, Session, is_too_long, with_revision};
use crate::events::what_is_claimed;
use crate::handlers::{After, answer, broker};
use crate::liveness::{Heard, Known};
use crate::protocol::registration::{check_crc, is_compressed, registration_fingerprint};
use crate::protocol::{ReadOptions, Reply, remarks};
use crate::wire::RemotingCommand;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use storage::command::{Change, Name, Registration};
use storage::outcome::ConflictKind;
use storage::route_info::{BrokerKey, RegistrationCheck};
use storage::{Outcome, Position};
use tokio::time::Instant;

/// Bodies from this size on are read beside the connections' threads, bytes.
const LARGE_BODY_BYTES: usize = 32 << 10;
/// From this size on they are read there too when most of them is known, bytes.
const HUGE_BODY_BYTES: usize = 512 << 10;
/// A compressed body may be a thousand times larger inside.
const LARGE_COMPRESSED_BYTES: usize = 512;
/// How often a registration is compared with the table again before it is sent whole.
const ROUNDS_MAX: u32 = 2;

/// One registration on its way.
struct Edge {
    service: Arc<Service>,
    session: Arc<Session>,
    command: Arc<RemotingCommand>,
    options: ReadOptions,
    deadline: Instant,
    /// Identity as the header says.
    key: BrokerKey,
    name: Name,
    print: u128,
    /// How many UNREGISTER requests had come over the connection before it.
    leaves: u64,
    /// Times that the table moved under it.
    rounds: u32,
}

/// Begins a registration.
pub(super) fn begin(
    service: &Arc<Service>,
    session: &Arc<Session>,
    command: RemotingCommand,
    options: ReadOptions,
    deadline: Instant,
) -> Progress {
    let text = |field| Name::from(command.field(field).unwrap_or_default());
    let edge = Edge {
        service: Arc::clone(service),
        session: Arc::clone(session),
        options,
        deadline,
        key: BrokerKey { cluster: text("clusterName"), address: text("brokerAddr") },
        name: text("brokerName"),
        print: 0,
        leaves: session.leaves.load(Ordering::Relaxed),
        rounds: 0,
        command: Arc::new(command),
    };
    Progress::InOrder(Box::pin(edge.look_at_bytes()))
}

impl Edge {
    /// The checksum, and whether these bytes are known to change nothing.
    async fn look_at_bytes(mut self) -> Progress {
        if let Err(reply) = check_crc(&self.command) {
            return self.refuse(reply);
        }
        if is_too_long(&self.key) {
            return self.refuse(Reply::error(remarks::names_too_long(BROKER_NAMES_BYTES_MAX)));
        }
        self.print = registration_fingerprint(&self.command);
        let table = self.service.table();
        let version = table.group_version(&self.name);
        if self.service.prints.holds(&self.key, self.print, version) {
            self.service.registrations.known_bytes.add_one();
            return self.unchanged(version);
        }
        self.compare().await
    }

    /// Reads it and compares it with the table; proposes what differs.
    async fn compare(self) -> Progress {
        let mut reading = match self.read().await {
            Ok(reading) => Arc::new(reading),
            Err(reply) => return self.refuse(reply),
        };
        // Behind from the first moment on is a broker that starts over; it is taken, as in Java.
        let starts_over = self.rounds == 0 && self.is_behind(&reading);
        for _ in 0..ROUNDS_MAX {
            if !starts_over && self.is_behind(&reading) {
                return self.overtaken();
            }
            let look = match self.look(&mut reading).await {
                Ok(look) => look,
                Err(reply) => return Progress::Answered(reply),
            };
            let difference = match look.check {
                RegistrationCheck::Unchanged => {
                    self.service.registrations.unchanged.add_one();
                    return self.unchanged(look.version);
                }
                RegistrationCheck::Refused(outcome) => return self.lost(&outcome, &reading),
                RegistrationCheck::Differs(difference) => *difference,
            };
            if self.service.table().settings().delete_topic_with_broker_registration {
                self.service.flapping.look(&self.key, &difference);
            }
            self.service.registrations.differences.add_one();
            match self.propose(difference).await {
                Ok((Outcome::Conflict { group_version }, _)) => {
                    self.service.registrations.conflicts.add_one();
                    let index = group_version.index;
                    if let Err(error) = self.service.node.wait_applied(index, self.deadline).await {
                        self.service.registrations.no_leader.add_one();
                        return Progress::Answered(answer::of_read_error(&error));
                    }
                }
                Ok((Outcome::Done { changed: true }, position)) => {
                    return self.took(position, &reading).await;
                }
                Ok((outcome, position)) => return self.came_to(&outcome, position, reading).await,
                Err(reply) => return Progress::Answered(reply),
            }
        }
        if !starts_over && self.is_behind(&reading) {
            return self.overtaken();
        }
        if reading.is_whole() {
            self.propose_whole(reading).await
        } else {
            self.read_and_propose_whole().await
        }
    }

    /// The table holds a later state of the broker than this registration.
    fn is_behind(&self, reading: &Reading) -> bool {
        let (table, read) = (self.service.table(), reading.registration());
        table.live(&self.key).is_some_and(|live| {
            let (held, own) = (live.data_version, read.data_version);
            live.broker == read.broker
                && held.state_version == own.state_version
                && held.timestamp >= own.timestamp
                && held.counter > own.counter
        })
    }

    /// While it waited, say for a leader, a later one of the same broker came through another node and was acknowledged.
    /// To carry this one out would take back what that one brought.
    fn overtaken(self) -> Progress {
        self.service.liveness.heard(self.session.id, &self.key, Heard::Register);
        let revision = self.service.table().revision().map(|id| id.index);
        self.accept(revision)
    }

    /// An UNREGISTER came behind it over its connection and was carried out while it waited for the leader's word: what
    /// it would propose now would bring a broker back that has stopped.
    fn has_left(&self) -> bool {
        self.session.leaves.load(Ordering::Relaxed) != self.leaves
    }

    /// The leader has no such broker, though this node's table has: its word counts.
    async fn read_and_propose_whole(self) -> Progress {
        if self.has_left() {
            return Progress::Answered(Reply::error(
                "the broker unregistered while its registration was under way",
            ));
        }
        match self.read_whole().await {
            Ok(whole) => self.propose_whole(Arc::new(whole)).await,
            Err(reply) => self.refuse(reply),
        }
    }

    async fn propose_whole(self, whole: Arc<Reading>) -> Progress {
        self.service.registrations.wholes.add_one();
        match self.propose(whole.registration().clone()).await {
            Ok((outcome, position)) => self.came_to(&outcome, position, whole).await,
            Err(reply) => Progress::Answered(reply),
        }
    }

    /// A heartbeat, if the leader knows the broker.
    fn unchanged(self, version: Position) -> Progress {
        self.service.liveness.heard(self.session.id, &self.key, Heard::Register);
        Progress::Beside(Box::pin(self.confirm(version)))
    }

    async fn confirm(mut self, version: Position) -> Progress {
        let applied = match self.service.liveness.confirm(&self.key, self.deadline).await {
            Known::Known { applied, .. } => applied,
            Known::Unknown => return Progress::InOrder(Box::pin(self.read_and_propose_whole())),
            Known::NotNow => {
                self.service.registrations.no_leader.add_one();
                return Progress::Answered(Reply::error("no leader confirmed the registration in time"));
            }
        };
        if let Err(error) = self.service.node.wait_applied(applied, self.deadline).await {
            self.service.registrations.no_leader.add_one();
            return Progress::Answered(answer::of_read_error(&error));
        }
        // What came meanwhile, say a topic's deletion, may be something that the registration undoes.
        let table = self.service.table();
        if table.live(&self.key).is_some() && (table.group_version(&self.name) == version || self.has_left())
        {
            return self.accept(table.revision().map(|id| id.index));
        }
        self.rounds += 1;
        Progress::InOrder(if self.rounds < ROUNDS_MAX && !self.has_left() {
            Box::pin(self.compare())
        } else {
            Box::pin(self.read_and_propose_whole())
        })
    }

    /// A difference was carried out, at the group version that it was made against: at this position the table is as the
    /// broker tells it.
    async fn took(self, position: Position, reading: &Arc<Reading>) -> Progress {
        self.service.liveness.heard(self.session.id, &self.key, Heard::Register);
        let (table, read) = (self.service.table(), Arc::clone(reading));
        let whole = reading.is_whole();
        let told = self.compute(whole, move || read.told_at(&table, position)).await.ok().flatten();
        self.service.prints.remember(&self.service.table(), &self.key, self.print, position, told);
        self.accept(Some(position.index))
    }

    /// Another outcome from the log.
    async fn came_to(self, outcome: &Outcome, position: Position, mut reading: Arc<Reading>) -> Progress {
        if !matches!(outcome, Outcome::Done { .. }) {
            return self.lost(outcome, &reading);
        }
        self.service.liveness.heard(self.session.id, &self.key, Heard::Register);
        // The next one is known by its bytes, if by then nothing else has touched the broker name.
        let _ = self.look(&mut reading).await;
        self.accept(Some(position.index))
    }

    /// Taken.
    fn accept(self, revision: Option<u64>) -> Progress {
        self.service.quarrels.taken(&self.key);
        let reply = broker::registered(&self.service.table(), &self.key);
        Progress::Answered(with_revision(reply, self.options, revision))
    }

    /// Not taken, by the rules of the tables.
    fn lost(self, outcome: &Outcome, reading: &Reading) -> Progress {
        if *outcome == Outcome::Outdated {
            self.service.registrations.outdated.add_one();
            self.tell_holder(reading.registration().id);
            return Progress::Answered(broker::registration_lost(&self.service.table()));
        }
        self.refuse(answer::of_outcome(outcome, After::Registration))
    }

    /// Says in the log who holds the place that this registration did not get.
    fn tell_holder(&self, id: i64) {
        let table = self.service.table();
        let holder = table.group(&self.name).and_then(|group| group.address(id)).cloned().unwrap_or_default();
        if self.service.quarrels.lost(&self.key, &holder) {
            let what = what_is_claimed(ConflictKind::StateVersion);
            tracing::warn!(broker = %self.name, id, %holder, claimant = %self.key.address, "conflict: {what}");
        }
    }

    fn refuse(self, reply: Reply) -> Progress {
        self.service.registrations.refused.add_one();
        Progress::Answered(reply)
    }

    /// Reads it, but for what is known of it.
    async fn read(&self) -> Result<Reading, Reply> {
        let (command, table) = (Arc::clone(&self.command), self.service.table());
        // What cannot be used must not count as known: the whole body is read then.
        let told = self.service.prints.told(&self.key);
        let told = told.filter(|told| !is_compressed(&self.command) && told.is_of_use(&table));
        let beside = told.is_none() || self.command.body.len() >= HUGE_BODY_BYTES;
        let limits = self.service.options.registration;
        self.compute(beside, move || Reading::new(&command, told, limits)).await?
    }

    async fn read_whole(&self) -> Result<Reading, Reply> {
        let (command, limits) = (Arc::clone(&self.command), self.service.options.registration);
        self.compute(true, move || Reading::new(&command, None, limits)).await?
    }

    /// What it would do to the table. What changes nothing is remembered. Reads it whole if it must.
    async fn look(&self, reading: &mut Arc<Reading>) -> Result<Look, Reply> {
        loop {
            let (table, read, whole) = (self.service.table(), Arc::clone(reading), reading.is_whole());
            let Some(mut look) = self.compute(whole, move || read.look(&table)).await? else {
                *reading = Arc::new(self.read_whole().await?);
                continue;
            };
            if look.check == RegistrationCheck::Unchanged {
                let (table, told) = (self.service.table(), look.told.take());
                self.service.prints.remember(&table, &self.key, self.print, look.version, told);
            }
            return Ok(look);
        }
    }

    /// Large ones are computed beside the connections' threads, a few at one time, unless little of them is looked at.
    async fn compute<T: Send + 'static>(
        &self,
        beside: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Reply> {
        let large = if is_compressed(&self.command) { LARGE_COMPRESSED_BYTES } else { LARGE_BODY_BYTES };
        if !beside || self.command.body.len() < large {
            return Ok(work());
        }
        let _permit = self.service.parsing.acquire().await;
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|_| Reply::error("the registration was given up"))
    }

    async fn propose(&self, registration: Registration) -> Result<(Outcome, Position), Reply> {
        // Its connection speaks, whatever becomes of the proposal.
        self.service.liveness.heard(self.session.id, &self.key, Heard::Heartbeat);
        let change = Change::RegisterBroker(Box::new(registration));
        let proposed = self.service.propose(&self.session, change, self.deadline).await;
        proposed.map(|done| (done.outcome, done.position)).map_err(|error| {
            self.service.registrations.no_leader.add_one();
            answer::of_propose_error(&error)
        })
    }
}
