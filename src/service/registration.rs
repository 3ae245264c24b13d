//! REGISTER_BROKER at the edge.
//!
//! ```text
//! checksum → same bytes at the same group version? ──yes──▶ confirm by the leader ──▶ answer
//!                     │ no                                      ▲      │ unknown there
//!                     ▼                                         │      ▼
//!            read, compare with the table ──changes nothing─────┘   propose whole ──▶ answer
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

use super::{Progress, Service, Session, with_revision};
use crate::events::what_is_claimed;
use crate::handlers::{After, answer, broker};
use crate::liveness::{Heard, Known};
use crate::protocol::registration::{check_crc, parse_registration, registration_fingerprint};
use crate::protocol::{ReadOptions, Reply};
use crate::wire::RemotingCommand;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use storage::command::{Basis, Change, Name, Registration};
use storage::outcome::ConflictKind;
use storage::route_info::{BrokerKey, RegistrationCheck};
use storage::{Outcome, Position};
use tokio::time::Instant;

/// Bodies from this size on are read beside the connections' threads, bytes.
const LARGE_BODY_BYTES: usize = 32 << 10;
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
        let whole = match self.parse().await {
            Ok(whole) => Arc::new(whole),
            Err(reply) => return self.refuse(reply),
        };
        // Behind from the first moment on is a broker that starts over; it is taken, as in Java.
        let starts_over = self.rounds == 0 && self.is_behind(&whole);
        for _ in 0..ROUNDS_MAX {
            if !starts_over && self.is_behind(&whole) {
                return self.overtaken();
            }
            let (check, version) = match self.check(&whole).await {
                Ok(checked) => checked,
                Err(reply) => return Progress::Answered(reply),
            };
            let difference = match check {
                RegistrationCheck::Unchanged => {
                    self.service.registrations.unchanged.add_one();
                    return self.unchanged(version);
                }
                RegistrationCheck::Refused(outcome) => return self.lost(&outcome, &whole),
                RegistrationCheck::Differs(difference) => *difference,
            };
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
                Ok((outcome, revision)) => return self.came_to(&outcome, revision, &whole).await,
                Err(reply) => return Progress::Answered(reply),
            }
        }
        if !starts_over && self.is_behind(&whole) {
            return self.overtaken();
        }
        self.propose_whole(whole).await
    }

    /// The table holds a later state of the broker than this registration.
    fn is_behind(&self, whole: &Registration) -> bool {
        let table = self.service.table();
        table.live(&self.key).is_some_and(|live| {
            let (held, own) = (live.data_version, whole.data_version);
            live.broker == whole.broker
                && held.state_version == own.state_version
                && held.timestamp >= own.timestamp
                && held.counter > own.counter
        })
    }

    /// While it waited, say for a leader, a later one of the same broker came through another node and was acknowledged.
    /// To carry this one out would take back what that one brought.
    fn overtaken(self) -> Progress {
        self.service.liveness.heard(self.session.id, self.key.clone(), Heard::Register);
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
        match self.parse().await {
            Ok(whole) => self.propose_whole(Arc::new(whole)).await,
            Err(reply) => self.refuse(reply),
        }
    }

    async fn propose_whole(self, whole: Arc<Registration>) -> Progress {
        self.service.registrations.wholes.add_one();
        let registration = Registration { basis: Basis::Whole, ..Registration::clone(&whole) };
        match self.propose(registration).await {
            Ok((outcome, revision)) => self.came_to(&outcome, revision, &whole).await,
            Err(reply) => Progress::Answered(reply),
        }
    }

    /// A heartbeat, if the leader knows the broker.
    fn unchanged(self, version: Position) -> Progress {
        self.service.liveness.heard(self.session.id, self.key.clone(), Heard::Register);
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

    /// An outcome from the log.
    async fn came_to(self, outcome: &Outcome, revision: u64, whole: &Arc<Registration>) -> Progress {
        if !matches!(outcome, Outcome::Done { .. }) {
            return self.lost(outcome, whole);
        }
        self.service.liveness.heard(self.session.id, self.key.clone(), Heard::Register);
        // The next one is known by its bytes, if by then nothing else has touched the broker name.
        let _ = self.check(whole).await;
        self.accept(Some(revision))
    }

    /// Taken.
    fn accept(self, revision: Option<u64>) -> Progress {
        self.service.quarrels.taken(&self.key);
        let reply = broker::registered(&self.service.table(), &self.key);
        Progress::Answered(with_revision(reply, self.options, revision))
    }

    /// Not taken, by the rules of the tables.
    fn lost(self, outcome: &Outcome, whole: &Registration) -> Progress {
        if *outcome == Outcome::Outdated {
            self.service.registrations.outdated.add_one();
            self.tell_holder(whole.id);
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

    async fn parse(&self) -> Result<Registration, Reply> {
        let command = Arc::clone(&self.command);
        self.compute(move || parse_registration(&command)).await?
    }

    /// What it would do to the table, and the group version of that table. What changes nothing is remembered.
    async fn check(&self, whole: &Arc<Registration>) -> Result<(RegistrationCheck, Position), Reply> {
        let (table, whole, name) = (self.service.table(), Arc::clone(whole), Name::clone(&self.name));
        let (check, version) =
            self.compute(move || (table.check_registration(&whole), table.group_version(&name))).await?;
        if check == RegistrationCheck::Unchanged {
            self.service.prints.remember(&self.service.table(), &self.key, self.print, version);
        }
        Ok((check, version))
    }

    /// Large ones are computed beside the connections' threads, a few at one time.
    async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Reply> {
        let compressed =
            self.command.field("compressed").is_some_and(|text| text.eq_ignore_ascii_case("true"));
        let large = if compressed { LARGE_COMPRESSED_BYTES } else { LARGE_BODY_BYTES };
        if self.command.body.len() < large {
            return Ok(work());
        }
        let _permit = self.service.parsing.acquire().await;
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|_| Reply::error("the registration was given up"))
    }

    async fn propose(&self, registration: Registration) -> Result<(Outcome, u64), Reply> {
        // Its connection speaks, whatever becomes of the proposal.
        self.service.liveness.heard(self.session.id, self.key.clone(), Heard::Heartbeat);
        let change = Change::RegisterBroker(Box::new(registration));
        let proposed = self.service.propose(&self.session, change, self.deadline).await;
        proposed.map(|done| (done.outcome, done.position.index)).map_err(|error| {
            self.service.registrations.no_leader.add_one();
            answer::of_propose_error(&error)
        })
    }
}
