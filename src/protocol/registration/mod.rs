//! REGISTER_BROKER in stages: header, checksum, body digest, and only then the body.
//!
//! A broker registers in full every 10 to 30 s with every node, and nearly always with the bytes that it sent before.
//! So a node computes the digest first ([`RegistrationHeader::body_digest`]) and parses ([`parse_part`]) only a body
//! that it has not seen.

mod blocks;
mod compressed;
mod header;
mod plain;

pub use blocks::Blocks;
pub use header::RegistrationHeader;

use super::{Reply, name_limits, remarks};
use crate::wire::RemotingCommand;
use blocks::SkippedTopics;
use std::sync::Arc;
use storage::command::{Basis, DataVersion, Name, QueueConfig, Registration, StaticTopicInfo, TopicConfig};

/// Limits of one registration. A larger one is refused whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegistrationLimits {
    /// Largest body once inflated, bytes.
    pub inflated_bytes: u64,
    /// Most topics, and most static-topic infos.
    pub topics: usize,
}

impl Default for RegistrationLimits {
    fn default() -> Self {
        Self { inflated_bytes: 256 << 20, topics: 200_000 }
    }
}

/// Most filter servers of one broker.
pub const FILTER_SERVERS_MAX: usize = 1_000;

/// Version of RocketMQ (3.0.11) since which the topic table is wrapped together with the filter servers.
const WRAPPED_SINCE: i32 = 37;
/// Version of RocketMQ (5.0.0) since which a compressed body ends with static-topic infos.
const STATIC_TOPICS_SINCE: i32 = 413;

/// The content of a body.
#[derive(Debug, Default)]
struct Body {
    data_version: DataVersion,
    topics: Vec<TopicConfig>,
    /// The blocks of the topic table, and the topics in it that were skipped.
    table: (Blocks, SkippedTopics),
    /// As sent: `None` for a null, which keeps the servers that the table has.
    filter_servers: Option<Vec<Name>>,
    static_infos: Vec<(Name, StaticTopicInfo)>,
}

/// A registration, perhaps without the topics that stand in known blocks.
#[derive(Debug)]
pub struct PartialRegistration {
    /// What was read. If topics were skipped, `topics` lacks them.
    pub registration: Registration,
    /// The blocks of its topic table; `None` when a name stands in it twice, or it has no table in JSON.
    pub blocks: Option<Blocks>,
    skipped: SkippedTopics,
}

impl PartialRegistration {
    /// Topics in the body, the skipped ones included.
    #[must_use]
    pub fn topic_count(&self) -> usize {
        self.registration.topics.len() + self.skipped.topics
    }

    /// Whether all its topics were read.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.skipped.topics == 0
    }

    /// Whether one of these topics may be among the skipped ones; never false for a topic that was skipped.
    #[must_use]
    pub fn may_have_skipped(&self, topics: &[Name]) -> bool {
        !self.is_whole()
            && self.blocks.as_ref().is_none_or(|blocks| self.skipped.may_contain(blocks, topics.iter()))
    }
}

/// Reads a registration whole, or refuses it, by the default limits. Does not check the checksum.
///
/// # Errors
/// The reply that says what is missing, unreadable, or too much.
pub fn parse_registration(command: &RemotingCommand) -> Result<Registration, Reply> {
    let header = RegistrationHeader::parse(command);
    Ok(parse_part(&header, &command.body, None, RegistrationLimits::default())?.registration)
}

/// Reads a registration, but skips the topics in known blocks. The result is that of reading everything and leaving the
/// skipped topics out: no skipped name stands among the topics that were read.
///
/// # Errors
/// The reply that says what is missing, unreadable, or too much.
pub fn parse_part(
    header: &RegistrationHeader,
    body: &[u8],
    known: Option<&Blocks>,
    limits: RegistrationLimits,
) -> Result<PartialRegistration, Reply> {
    let id = header.require()?;
    let parsed = parse_body(header, body, known, limits)
        .map_err(|why| Reply::error(remarks::bad_body("registration", why)))?;
    let (blocks, skipped) = parsed.table;
    let topics = sorted(parsed.topics, |topic| &topic.topic);
    let each_once = topics.len() + skipped.topics == blocks.topics()
        && !skipped.may_contain(&blocks, topics.iter().map(|topic| &topic.topic));
    if !each_once && skipped.topics > 0 {
        return parse_part(header, body, None, limits);
    }
    let registration = Registration {
        cluster: header.key.cluster.clone(),
        broker: header.broker.clone(),
        id,
        address: header.key.address.clone(),
        ha_address: header.ha_address.clone(),
        zone: header.zone.clone(),
        acting_master: header.acting_master,
        heartbeat_timeout_ms: header.heartbeat_timeout_ms,
        data_version: parsed.data_version,
        filter_servers: parsed.filter_servers,
        topics,
        basis: Basis::Whole,
        static_infos: sorted(parsed.static_infos, |(topic, _)| topic),
    };
    // A skipped topic was read, and checked, when its block became known.
    name_limits::check_registration(&registration)?;
    Ok(PartialRegistration { registration, blocks: each_once.then_some(blocks), skipped })
}

/// How many bytes a body has when it is inflated. Parsing takes about as much memory.
///
/// # Errors
/// The reply that refuses a body that is no zlib stream, or too large.
pub fn inflated_bytes(
    header: &RegistrationHeader,
    body: &[u8],
    limits: RegistrationLimits,
) -> Result<u64, Reply> {
    if !header.compressed || header.version < WRAPPED_SINCE {
        return Ok(body.len() as u64);
    }
    let bytes_max = limits.inflated_bytes;
    match compressed::inflated_bytes(body, bytes_max) {
        Ok(bytes) if bytes <= bytes_max => Ok(bytes),
        Ok(_) => Err(Reply::error(remarks::too_many_inflated_bytes(bytes_max))),
        Err(why) => Err(Reply::error(remarks::bad_body("registration", why))),
    }
}

fn parse_body(
    header: &RegistrationHeader,
    body: &[u8],
    known: Option<&Blocks>,
    limits: RegistrationLimits,
) -> Result<Body, &'static str> {
    let wrapped = header.version >= WRAPPED_SINCE;
    if body.is_empty() {
        // A missing wrapper counts as one with an empty list of filter servers, not as one without a list.
        return Ok(Body { filter_servers: wrapped.then(Vec::new), ..Body::default() });
    }
    if !wrapped {
        return plain::parse_table(body, limits.topics);
    }
    if header.compressed {
        return compressed::parse(body, header.version >= STATIC_TOPICS_SINCE, limits);
    }
    plain::parse_wrapper(body, known, limits.topics)
}

/// Sorts by name; of several with one name the last stays, as in a Java map.
fn sorted<T>(mut items: Vec<T>, name: impl Fn(&T) -> &Name) -> Vec<T> {
    if items.is_sorted_by(|a, b| name(a) < name(b)) {
        return items;
    }
    items.reverse();
    items.sort_by(|a, b| name(a).cmp(name(b)));
    items.dedup_by(|next, kept| name(next) == name(kept));
    items
}

/// Reads the body of QUERY_DATA_VERSION; `None` without a body, and for a null.
///
/// # Errors
/// The reply that says that the body is no data version.
pub(super) fn parse_data_version(body: &[u8]) -> Result<Option<DataVersion>, Reply> {
    if body.is_empty() {
        return Ok(None);
    }
    plain::parse_data_version(body).map_err(|why| Reply::error(remarks::bad_body("data version", why)))
}

/// Reads the queues in the body of REGISTER_TOPIC; none without a body.
///
/// # Errors
/// The reply that says that the body is no topic route.
pub(super) fn parse_queues(body: &[u8]) -> Result<Vec<(Name, QueueConfig)>, Reply> {
    if body.is_empty() {
        return Ok(Vec::new());
    }
    plain::parse_queues(body).map_err(|why| Reply::error(remarks::bad_body("topic route", why)))
}

fn shared(text: &str) -> Name {
    Arc::from(text)
}

#[cfg(test)]
mod tests;
