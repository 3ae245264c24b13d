//! A registration as it was received: recognised by its digest, or parsed and compared with the table.

use super::parsed::{Comparison, ParsedRegistration};
use super::registrar::Registrar;
use crate::budget::Charge;
use crate::protocol::registration::{RegistrationHeader, inflated_bytes};
use crate::protocol::{Reply, remarks};
use crate::service::broker_key::is_too_long;
use bytes::Bytes;
use std::sync::Arc;
use storage::Position;
use storage::command::Name;
use storage::limits::BROKER_KEY_BYTES_MAX;
use storage::route_info::{BrokerKey, RegistrationCheck};
use tokio::time::Instant;

/// Bodies from this size on are parsed beside the connections' threads, bytes.
const LARGE_BODY_BYTES: usize = 32 << 10;
/// From this size on that holds even when most topics are known, bytes.
const HUGE_BODY_BYTES: usize = 512 << 10;
/// A compressed body may be a thousand times larger inside.
const LARGE_COMPRESSED_BYTES: usize = 512;

/// Header and body of a registration.
pub(super) struct ReceivedRegistration {
    header: Arc<RegistrationHeader>,
    body: Bytes,
    /// Body digest; 0 until [`Self::check`] has computed it.
    digest: u128,
    /// Held while it is parsed, compared and proposed.
    charge: Option<Charge>,
}

impl ReceivedRegistration {
    pub(super) fn new(header: RegistrationHeader, body: Bytes) -> Self {
        Self { header: Arc::new(header), body, digest: 0, charge: None }
    }

    pub(super) fn key(&self) -> &BrokerKey {
        &self.header.key
    }

    pub(super) fn broker(&self) -> &Name {
        &self.header.broker
    }

    /// Checks the checksum and the length of the names, and computes the body digest.
    ///
    /// # Errors
    /// The reply that refuses the registration.
    pub(super) fn check(&mut self) -> Result<(), Reply> {
        self.header.check_crc(&self.body)?;
        if is_too_long(&self.header.key) {
            let bytes = self.header.key.name_bytes();
            let remark = remarks::too_many_bytes("clusterName and brokerAddr", bytes, BROKER_KEY_BYTES_MAX);
            return Err(Reply::error(remark));
        }
        self.digest = self.header.body_digest(&self.body);
        Ok(())
    }

    /// Whether the digest is known to change nothing at this group version.
    pub(super) fn is_known(&self, registrar: &Registrar, version: Position) -> bool {
        registrar.digests.contains(&self.header.key, self.digest, version)
    }

    /// Charges what parsing it will take, and waits for room in the budget. A small body is not charged.
    ///
    /// # Errors
    /// The reply that refuses it: too large, unreadable, or SYSTEM_BUSY when there is no room in time.
    pub(super) async fn charge(&mut self, registrar: &Registrar, deadline: Instant) -> Result<(), Reply> {
        if !self.is_large() || self.charge.is_some() {
            return Ok(());
        }
        let (header, body, limits) = (Arc::clone(&self.header), self.body.clone(), registrar.limits);
        let bytes = if header.compressed {
            self.compute(registrar, true, move || inflated_bytes(&header, &body, limits)).await??
        } else {
            body.len() as u64
        };
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.charge = registrar.budgets.registrations.charge_by(deadline, bytes).await;
        if self.charge.is_some() { Ok(()) } else { Err(Reply::busy()) }
    }

    /// Gives the charge back: nothing of the parsed body is left.
    pub(super) fn give_back(&mut self) {
        self.charge = None;
    }

    /// Whether the body is, or may be once it is inflated, more than a few topics.
    fn is_large(&self) -> bool {
        self.body.len() >= if self.header.compressed { LARGE_COMPRESSED_BYTES } else { LARGE_BODY_BYTES }
    }

    /// Parses it, but skips the topics that the table is known to have.
    pub(super) async fn parse(&self, registrar: &Registrar) -> Result<ParsedRegistration, Reply> {
        let (header, body, limits) = (Arc::clone(&self.header), self.body.clone(), registrar.limits);
        let table = registrar.table();
        // Known topics that cannot be used must not count: the whole body is parsed then.
        let known = registrar.digests.known_topics(&self.header.key);
        let known = known.filter(|known| !header.compressed && known.is_usable(&table));
        let costly = known.is_none() || body.len() >= HUGE_BODY_BYTES;
        let parse = move || ParsedRegistration::new(&header, &body, known, limits);
        self.compute(registrar, costly, parse).await?
    }

    pub(super) async fn parse_whole(&self, registrar: &Registrar) -> Result<ParsedRegistration, Reply> {
        let (header, body, limits) = (Arc::clone(&self.header), self.body.clone(), registrar.limits);
        let parse = move || ParsedRegistration::new(&header, &body, None, limits);
        self.compute(registrar, true, parse).await?
    }

    /// Compares it with the table, and remembers its digest if it changes nothing. Parses it whole if need be.
    pub(super) async fn compare(
        &self,
        registrar: &Registrar,
        parsed: &mut Arc<ParsedRegistration>,
    ) -> Result<Comparison, Reply> {
        loop {
            let (table, sent, whole) = (registrar.table(), Arc::clone(parsed), parsed.is_whole());
            let compared = self.compute(registrar, whole, move || sent.compare(&table)).await?;
            let Some(mut comparison) = compared else {
                *parsed = Arc::new(self.parse_whole(registrar).await?);
                continue;
            };
            if comparison.check == RegistrationCheck::Unchanged {
                let (table, topics) = (registrar.table(), comparison.known_topics.take());
                let (key, version) = (&self.header.key, comparison.version);
                registrar.digests.insert(&table, key, self.digest, version, topics);
            }
            return Ok(comparison);
        }
    }

    /// Remembers the digest of a registration that the table has since this position.
    pub(super) async fn remember(
        &self,
        registrar: &Registrar,
        position: Position,
        parsed: &Arc<ParsedRegistration>,
    ) {
        let (table, sent, whole) = (registrar.table(), Arc::clone(parsed), parsed.is_whole());
        let topics = self.compute(registrar, whole, move || sent.known_topics_at(&table, position)).await;
        let (table, topics) = (registrar.table(), topics.ok().flatten());
        registrar.digests.insert(&table, &self.header.key, self.digest, position, topics);
    }

    /// Runs work on the body. Costly work on a large body runs beside the connections' threads, a few at one time.
    async fn compute<T: Send + 'static>(
        &self,
        registrar: &Registrar,
        costly: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Reply> {
        if !costly || !self.is_large() {
            return Ok(work());
        }
        let _permit = registrar.parsing.acquire().await;
        raft::background(work).await.map_err(|_| Reply::error("the registration was given up"))
    }
}
