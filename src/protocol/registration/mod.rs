//! REGISTER_BROKER in stages: checksum, fingerprint, and only then the body.
//!
//! A broker registers in full every 10 to 30 s with every node, and nearly always with the bytes that it sent before.
//! So a node hashes first ([`registration_fingerprint`]) and parses ([`parse_registration`]) only what it has not seen.

mod blocks;
mod compressed;
mod plain;

pub use blocks::Blocks;

use super::{Reply, remarks};
use crate::wire::RemotingCommand;
use blocks::Passed;
use std::sync::Arc;
use storage::command::{Basis, DataVersion, Name, QueueConfig, Registration, StaticTopicInfo, TopicConfig};
use xxhash_rust::xxh3::Xxh3;

/// How much one registration may be. A larger one is refused whole.
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

/// Header fields that a registration reads, all but the checksum.
const FIELDS: [&str; 9] = [
    "brokerName",
    "brokerAddr",
    "clusterName",
    "haServerAddr",
    "brokerId",
    "heartbeatTimeoutMillis",
    "enableActingMaster",
    "compressed",
    ZONE_NAME,
];
const ZONE_NAME: &str = "__ZONE_NAME";

/// Checks the body against the header's checksum. A checksum that is 0, absent or unreadable is not checked.
///
/// # Errors
/// The answer that refuses it.
pub fn check_crc(command: &RemotingCommand) -> Result<(), Reply> {
    let expected: i32 = command.field("bodyCrc32").and_then(|text| text.parse().ok()).unwrap_or_default();
    // Java keeps the checksum in a signed number and clears the sign; without a body it is 0.
    let actual = if command.body.is_empty() { 0 } else { crc32fast::hash(&command.body) & 0x7FFF_FFFF };
    if expected == 0 || i64::from(expected) == i64::from(actual) {
        return Ok(());
    }
    Err(Reply::error(remarks::CRC32_NOT_MATCH).with_ext())
}

/// A hash of everything that a registration reads: the body, the sender's version and the header fields, but not opaque
/// and checksum. Equal hashes mean the same registration.
#[must_use]
pub fn registration_fingerprint(command: &RemotingCommand) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(&command.version.to_le_bytes());
    for key in FIELDS {
        // With its length, so that no text can pass for the end of one field and the beginning of the next.
        let value = command.field(key);
        hash.update(&value.map_or(u64::MAX, |text| text.len() as u64).to_le_bytes());
        hash.update(value.unwrap_or_default().as_bytes());
    }
    hash.update(&command.body);
    hash.digest128()
}

/// What a body says.
#[derive(Debug, Default)]
struct Body {
    data_version: DataVersion,
    topics: Vec<TopicConfig>,
    /// The bytes of the topic table, and what of it was not read.
    table: (Blocks, Passed),
    /// As sent: `None` for a null, which keeps what is known.
    filter_servers: Option<Vec<Name>>,
    static_infos: Vec<(Name, StaticTopicInfo)>,
}

/// A registration, perhaps without those of its topics that are known.
#[derive(Debug)]
pub struct Part {
    /// What was read. If topics were passed over, `topics` lacks them.
    pub registration: Registration,
    /// The blocks of its topic table; `None` when a name stands in it twice, or it has no table in JSON.
    pub blocks: Option<Blocks>,
    passed: Passed,
}

impl Part {
    /// Topics in the body, those included that were passed over.
    #[must_use]
    pub fn topic_count(&self) -> usize {
        self.registration.topics.len() + self.passed.topics
    }

    /// Whether all its topics were read.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.passed.topics == 0
    }

    /// Whether one of these topics may be among those that were passed over; never wrong about one that is.
    #[must_use]
    pub fn may_have_passed(&self, topics: &[Name]) -> bool {
        !self.is_whole()
            && self.blocks.as_ref().is_none_or(|blocks| self.passed.may_hold(blocks, topics.iter()))
    }
}

/// Reads a registration whole, and refuses it whole. The checksum is not looked at.
///
/// # Errors
/// The answer that says what is missing, unreadable, or too much by the default limits.
pub fn parse_registration(command: &RemotingCommand) -> Result<Registration, Reply> {
    Ok(parse_part(command, None, RegistrationLimits::default())?.registration)
}

/// Reads a registration, but passes over the topics in blocks that are known. The same as reading all of it and leaving
/// them out, for no name that was passed over stands among those that were read.
///
/// # Errors
/// The answer that says what is missing, unreadable, or too much.
pub fn parse_part(
    command: &RemotingCommand,
    known: Option<&Blocks>,
    limits: RegistrationLimits,
) -> Result<Part, Reply> {
    let name = |key: &str| required(command, key).map(Name::from);
    let (cluster, broker, address) = (name("clusterName")?, name("brokerName")?, name("brokerAddr")?);
    let id: i64 = required(command, "brokerId")?
        .parse()
        .map_err(|_| Reply::error(remarks::missing_field("brokerId")))?;
    let body = parse_body(command, known, limits)
        .map_err(|why| Reply::error(remarks::bad_body("registration", why)))?;
    let (blocks, passed) = body.table;
    let topics = sorted(body.topics, |topic| &topic.topic);
    let once = topics.len() + passed.topics == blocks.topics()
        && !passed.may_hold(&blocks, topics.iter().map(|topic| &topic.topic));
    if !once && passed.topics > 0 {
        return parse_part(command, None, limits);
    }
    let registration = Registration {
        cluster,
        broker,
        id,
        address,
        ha_address: command.field("haServerAddr").map(Name::from),
        zone: command.field(ZONE_NAME).map(Name::from),
        acting_master: command.field("enableActingMaster").map(is_true),
        heartbeat_timeout_ms: command.field("heartbeatTimeoutMillis").and_then(|text| text.parse().ok()),
        data_version: body.data_version,
        filter_servers: body.filter_servers,
        topics,
        basis: Basis::Whole,
        static_infos: sorted(body.static_infos, |(topic, _)| topic),
    };
    Ok(Part { registration, blocks: once.then_some(blocks), passed })
}

/// A header field that must be there and say something.
fn required<'a>(command: &'a RemotingCommand, key: &str) -> Result<&'a str, Reply> {
    let text = command.field(key).filter(|text| !text.is_empty());
    text.ok_or_else(|| Reply::error(remarks::missing_field(key)))
}

/// Whether the header says that the body is compressed.
pub(crate) fn is_compressed(command: &RemotingCommand) -> bool {
    command.field("compressed").is_some_and(is_true)
}

fn is_true(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

fn parse_body(
    command: &RemotingCommand,
    known: Option<&Blocks>,
    limits: RegistrationLimits,
) -> Result<Body, &'static str> {
    let wrapped = command.version >= WRAPPED_SINCE;
    if command.body.is_empty() {
        // A wrapper that says nothing has an empty list of filter servers, not none.
        return Ok(Body { filter_servers: wrapped.then(Vec::new), ..Body::default() });
    }
    if !wrapped {
        return plain::parse_table(&command.body, limits.topics);
    }
    if is_compressed(command) {
        return compressed::parse(&command.body, command.version >= STATIC_TOPICS_SINCE, limits);
    }
    plain::parse_wrapper(&command.body, known, limits.topics)
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

/// Reads a data version body; `None` without a body, and for a null.
///
/// # Errors
/// The answer that says that it is none.
pub(super) fn parse_data_version(body: &[u8]) -> Result<Option<DataVersion>, Reply> {
    if body.is_empty() {
        return Ok(None);
    }
    plain::parse_data_version(body).map_err(|why| Reply::error(remarks::bad_body("data version", why)))
}

/// Reads the queues of a REGISTER_TOPIC body; none without a body.
///
/// # Errors
/// The answer that says that it is none.
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
