//! One registration, from its arrival to its reply.

use super::parsed::ParsedRegistration;
use super::received::ReceivedRegistration;
use super::registrar::Registrar;
use crate::event_log::describe_conflict;
use crate::handlers::{ReplyShape, broker, replies};
use crate::liveness::{RegistrationStatus, Strength};
use crate::protocol::registration::RegistrationHeader;
use crate::protocol::{ReadOptions, Reply};
use crate::service::progress::Progress;
use crate::service::reader::charged;
use crate::service::revision::with_revision;
use crate::service::session::Session;
use bytes::Bytes;
use std::sync::Arc;
use storage::command::{Change, Registration};
use storage::outcome::ConflictKind;
use storage::route_info::RegistrationCheck;
use storage::{Outcome, Position};
use tokio::time::Instant;

/// How often a registration is compared with the table before it is proposed whole.
const COMPARISONS_MAX: u32 = 2;

/// A registration as it arrives.
pub(in crate::service) struct Arrival {
    pub(in crate::service) session: Arc<Session>,
    pub(in crate::service) header: RegistrationHeader,
    pub(in crate::service) body: Bytes,
    pub(in crate::service) options: ReadOptions,
    pub(in crate::service) deadline: Instant,
}

/// Begins a registration.
pub(in crate::service) fn begin(registrar: &Arc<Registrar>, arrival: Arrival) -> Progress {
    let Arrival { session, header, body, options, deadline } = arrival;
    let pending = PendingRegistration {
        registrar: Arc::clone(registrar),
        unregister_count: session.unregister_count(),
        session,
        received: ReceivedRegistration::new(header, body),
        options,
        deadline,
        conflicts: 0,
    };
    Progress::Ordered(Box::pin(pending.check_digest()))
}

/// A registration without a reply yet.
struct PendingRegistration {
    registrar: Arc<Registrar>,
    session: Arc<Session>,
    received: ReceivedRegistration,
    options: ReadOptions,
    deadline: Instant,
    /// UNREGISTER requests that had come over the connection before it.
    unregister_count: u64,
    /// Times that the group version changed while the leader confirmed it.
    conflicts: u32,
}

impl PendingRegistration {
    /// Checks the checksum, and whether the body digest is known to change nothing.
    async fn check_digest(mut self) -> Progress {
        if let Err(reply) = self.received.check() {
            return self.refuse(reply);
        }
        if self.registrar.addresses.check(self.received.broker(), &self.received.key().address) {
            self.registrar.counters.implausible_addresses.add_one();
        }
        let version = self.registrar.table().group_version(self.received.broker());
        if self.received.is_known(&self.registrar, version) {
            self.registrar.counters.known_digest.add_one();
            return self.unchanged(version);
        }
        self.compare_and_propose().await
    }

    /// Parses the registration and compares it with the table; proposes the difference.
    async fn compare_and_propose(mut self) -> Progress {
        if let Err(reply) = self.received.charge(&self.registrar, self.deadline).await {
            return self.refuse(reply);
        }
        let mut parsed = match self.received.parse(&self.registrar).await {
            Ok(parsed) => Arc::new(parsed),
            Err(reply) => return self.refuse(reply),
        };
        // A broker that is behind from the first moment on has lost its data and starts over; it is accepted, as in
        // Java.
        let starts_over = self.conflicts == 0 && self.is_superseded(&parsed);
        for _ in 0..COMPARISONS_MAX {
            if !starts_over && self.is_superseded(&parsed) {
                return self.superseded();
            }
            let comparison = match self.received.compare(&self.registrar, &mut parsed).await {
                Ok(comparison) => comparison,
                Err(reply) => return Progress::Done(reply),
            };
            let difference = match comparison.check {
                RegistrationCheck::Unchanged => {
                    drop(parsed);
                    self.received.give_back();
                    self.registrar.counters.unchanged.add_one();
                    return self.unchanged(comparison.version);
                }
                RegistrationCheck::Refused(outcome) => return self.refused_by_table(&outcome, &parsed),
                RegistrationCheck::Differs(difference) => *difference,
            };
            if self.registrar.table().settings().delete_topic_with_broker_registration {
                self.registrar.flapping.check(self.received.key(), &difference);
            }
            self.registrar.counters.differences.add_one();
            match self.propose(difference).await {
                Ok((Outcome::Conflict { group_version }, _)) => {
                    self.registrar.counters.conflicts.add_one();
                    let index = group_version.index;
                    if let Err(error) = self.registrar.node.wait_applied(index, self.deadline).await {
                        self.registrar.counters.no_leader.add_one();
                        return Progress::Done(replies::of_read_error(&error));
                    }
                }
                Ok((Outcome::Done { changed: true }, position)) => {
                    return self.difference_applied(position, &parsed).await;
                }
                Ok((outcome, position)) => return self.applied(&outcome, position, parsed).await,
                Err(reply) => return Progress::Done(reply),
            }
        }
        if !starts_over && self.is_superseded(&parsed) {
            return self.superseded();
        }
        if parsed.is_whole() {
            self.propose_whole(parsed).await
        } else {
            self.parse_and_propose_whole().await
        }
    }

    /// Whether the table holds a later state of the broker than this registration.
    fn is_superseded(&self, parsed: &ParsedRegistration) -> bool {
        let (table, sent) = (self.registrar.table(), parsed.registration());
        table.live(self.received.key()).is_some_and(|live| {
            let (held, sent_version) = (live.data_version, sent.data_version);
            live.broker == sent.broker
                && held.state_version == sent_version.state_version
                && held.timestamp >= sent_version.timestamp
                && held.counter > sent_version.counter
        })
    }

    /// While this registration waited, for a leader for example, a later one of the same broker came through another
    /// node and was acknowledged. To carry this one out would take that one back.
    fn superseded(self) -> Progress {
        if let Err(busy) = self.heartbeat(Strength::Strong) {
            return self.refuse(busy);
        }
        let revision = self.registrar.table().revision().map(|id| id.index);
        self.accept(revision)
    }

    /// Whether an UNREGISTER came after it over its connection and was carried out while it waited for the leader: a
    /// proposal now would bring back a broker that has stopped.
    fn has_unregistered(&self) -> bool {
        self.session.unregister_count() != self.unregister_count
    }

    /// The leader does not have the broker, though the table of this node has: the leader decides.
    async fn parse_and_propose_whole(mut self) -> Progress {
        if self.has_unregistered() {
            return Progress::Done(Reply::error(
                "the broker unregistered while its registration was under way",
            ));
        }
        if let Err(reply) = self.received.charge(&self.registrar, self.deadline).await {
            return self.refuse(reply);
        }
        match self.received.parse_whole(&self.registrar).await {
            Ok(whole) => self.propose_whole(Arc::new(whole)).await,
            Err(reply) => self.refuse(reply),
        }
    }

    async fn propose_whole(self, whole: Arc<ParsedRegistration>) -> Progress {
        self.registrar.counters.wholes.add_one();
        match self.propose(whole.registration().clone()).await {
            Ok((outcome, position)) => self.applied(&outcome, position, whole).await,
            Err(reply) => Progress::Done(reply),
        }
    }

    /// It changes nothing: it is a heartbeat, if the leader confirms that the broker is registered.
    fn unchanged(self, version: Position) -> Progress {
        if let Err(busy) = self.heartbeat(Strength::Strong) {
            return self.refuse(busy);
        }
        Progress::Concurrent(Box::pin(self.confirm(version)))
    }

    async fn confirm(mut self, version: Position) -> Progress {
        let status = tokio::select! {
            biased;
            status = self.registrar.liveness.confirm(self.received.key(), self.deadline) => status,
            () = self.registrar.node.leaderless() => RegistrationStatus::NotNow,
        };
        let applied = match status {
            RegistrationStatus::Registered { applied, .. } => applied,
            RegistrationStatus::NotRegistered => {
                return Progress::Ordered(Box::pin(self.parse_and_propose_whole()));
            }
            RegistrationStatus::NotNow => {
                self.registrar.counters.no_leader.add_one();
                return Progress::Done(Reply::error("no leader confirmed the registration in time"));
            }
        };
        if let Err(error) = self.registrar.node.wait_applied(applied, self.deadline).await {
            self.registrar.counters.no_leader.add_one();
            return Progress::Done(replies::of_read_error(&error));
        }
        // The registration may undo a change that was applied meanwhile: the deletion of a topic, for example.
        let table = self.registrar.table();
        let same_version = table.group_version(self.received.broker()) == version;
        if table.live(self.received.key()).is_some() && (same_version || self.has_unregistered()) {
            return self.accept(table.revision().map(|id| id.index));
        }
        self.conflicts += 1;
        Progress::Ordered(if self.conflicts < COMPARISONS_MAX && !self.has_unregistered() {
            Box::pin(self.compare_and_propose())
        } else {
            Box::pin(self.parse_and_propose_whole())
        })
    }

    /// The difference was applied at the group version that it was computed against: at this position the table has
    /// everything as the broker sent it.
    async fn difference_applied(self, position: Position, parsed: &Arc<ParsedRegistration>) -> Progress {
        self.session_is_strong();
        self.received.remember(&self.registrar, position, parsed).await;
        self.accept(Some(position.index))
    }

    /// The log had another outcome.
    async fn applied(
        self,
        outcome: &Outcome,
        position: Position,
        mut parsed: Arc<ParsedRegistration>,
    ) -> Progress {
        if !matches!(outcome, Outcome::Done { .. }) {
            return self.refused_by_table(outcome, &parsed);
        }
        self.session_is_strong();
        // The comparison remembers the digest, if nothing else has changed the broker name by now.
        let _ = self.received.compare(&self.registrar, &mut parsed).await;
        self.accept(Some(position.index))
    }

    /// Reports a heartbeat of its broker to liveness.
    ///
    /// # Errors
    /// SYSTEM_BUSY: no further session fits.
    fn heartbeat(&self, strength: Strength) -> Result<(), Reply> {
        let liveness = &self.registrar.liveness;
        liveness.heartbeat(self.session.id, self.received.key(), strength).map_err(|_| Reply::busy())
    }

    /// The registration was applied. Its session has been there since it was proposed, so it has its place.
    fn session_is_strong(&self) {
        let _ = self.heartbeat(Strength::Strong);
    }

    fn accept(self, revision: Option<u64>) -> Progress {
        self.registrar.conflicts.accepted(self.received.key());
        let reply = broker::registered(&self.registrar.table(), self.received.key());
        let reply = charged(reply, &self.registrar.budgets);
        Progress::Done(with_revision(reply, self.options, revision))
    }

    fn refused_by_table(self, outcome: &Outcome, parsed: &ParsedRegistration) -> Progress {
        if *outcome == Outcome::Outdated {
            self.registrar.counters.outdated.add_one();
            self.log_holder(parsed.registration().id);
            let reply = broker::registration_lost(&self.registrar.table());
            return Progress::Done(charged(reply, &self.registrar.budgets));
        }
        self.refuse(replies::of_outcome(outcome, ReplyShape::Registration))
    }

    /// Logs the broker that holds the place that this registration did not get.
    fn log_holder(&self, id: i64) {
        let (broker, claimant) = (self.received.broker(), &self.received.key().address);
        let table = self.registrar.table();
        let holder = table.group(broker).and_then(|group| group.address(id)).cloned().unwrap_or_default();
        if self.registrar.conflicts.lost(self.received.key(), &holder) {
            let what = describe_conflict(ConflictKind::StateVersion);
            tracing::warn!(%broker, id, %holder, %claimant, "conflict: {what}");
        }
    }

    fn refuse(self, reply: Reply) -> Progress {
        self.registrar.counters.refused.add_one();
        Progress::Done(reply)
    }

    async fn propose(&self, registration: Registration) -> Result<(Outcome, Position), Reply> {
        // The broker is alive, whatever becomes of the proposal.
        self.heartbeat(Strength::Weak)?;
        let change = Change::RegisterBroker(Box::new(registration));
        let proposed = self.registrar.proposer.propose(&self.session, change, self.deadline).await;
        proposed.map(|done| (done.outcome, done.position)).map_err(|error| {
            self.registrar.counters.no_leader.add_one();
            replies::of_propose_error(&error)
        })
    }
}
