//! The header of REGISTER_BROKER.

use crate::protocol::{Reply, remarks};
use crate::wire::{ExtFields, RemotingCommand};
use storage::command::Name;
use storage::route_info::BrokerKey;
use xxhash_rust::xxh3::Xxh3;

/// The header of a registration, parsed once when the request arrives; the body is read in stages, and only when its
/// digest is new.
///
/// A registration that lacks a field is refused after its checksum was checked, as in Java. So parsing refuses nothing:
/// a text that is missing is empty, a number that is missing or unreadable is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationHeader {
    /// Cluster name and address.
    pub key: BrokerKey,
    /// Broker name.
    pub broker: Name,
    /// Broker id.
    pub id: Option<i64>,
    /// HA address.
    pub ha_address: Option<Name>,
    /// Zone.
    pub zone: Option<Name>,
    /// Whether a slave may act as the master; `None` from brokers that do not know of it.
    pub acting_master: Option<bool>,
    /// Idle time after which the broker expires, milliseconds, if it names one.
    pub heartbeat_timeout_ms: Option<i64>,
    /// Whether the body is a zlib stream.
    pub compressed: bool,
    /// Version number of the sender.
    pub version: i32,
    /// Checksum of the body; 0: none.
    crc32: i32,
    /// Hash of the version and of the texts of all fields but the checksum.
    digest: u128,
}

impl RegistrationHeader {
    /// Reads the header of a command.
    #[must_use]
    pub fn parse(command: &RemotingCommand) -> Self {
        let texts = Texts::of(command);
        let name = |text: Option<&str>| Name::from(text.unwrap_or_default());
        let is_true = |text: &str| text.eq_ignore_ascii_case("true");
        Self {
            key: BrokerKey { cluster: name(texts.cluster), address: name(texts.address) },
            broker: name(texts.broker),
            id: texts.id.and_then(|text| text.parse().ok()),
            ha_address: texts.ha_address.map(Name::from),
            zone: texts.zone.map(Name::from),
            acting_master: texts.acting_master.map(is_true),
            heartbeat_timeout_ms: texts.heartbeat_timeout.and_then(|text| text.parse().ok()),
            compressed: texts.compressed.is_some_and(is_true),
            version: command.version,
            crc32: texts.crc32.and_then(|text| text.parse().ok()).unwrap_or_default(),
            digest: texts.digest(command.version),
        }
    }

    /// Checks the body against the checksum. A checksum that is 0, absent or unreadable is not checked.
    ///
    /// # Errors
    /// The reply that refuses the registration.
    pub fn check_crc(&self, body: &[u8]) -> Result<(), Reply> {
        // Java keeps the checksum in a signed number and clears the sign; without a body it is 0.
        let actual = if body.is_empty() { 0 } else { crc32fast::hash(body) & 0x7FFF_FFFF };
        if self.crc32 == 0 || i64::from(self.crc32) == i64::from(actual) {
            return Ok(());
        }
        Err(Reply::error(remarks::CRC32_NOT_MATCH).with_ext())
    }

    /// The body digest: a hash of everything that a registration reads, which is the body, the sender's version and the
    /// header fields, but not opaque and checksum. Equal digests mean the same registration.
    #[must_use]
    pub fn body_digest(&self, body: &[u8]) -> u128 {
        let mut hash = Xxh3::new();
        hash.update(&self.digest.to_le_bytes());
        hash.update(body);
        hash.digest128()
    }

    /// Checks that the header has all that a registration cannot do without, and returns the broker id.
    pub(super) fn require(&self) -> Result<i64, Reply> {
        let texts = [
            ("clusterName", &self.key.cluster),
            ("brokerName", &self.broker),
            ("brokerAddr", &self.key.address),
        ];
        let missing = texts.iter().find(|(_, text)| text.is_empty()).map(|(field, _)| *field);
        match (missing, self.id) {
            (None, Some(id)) => Ok(id),
            (field, _) => Err(Reply::error(remarks::missing_field(field.unwrap_or("brokerId")))),
        }
    }
}

/// The fields' texts as they stand in the header.
#[derive(Debug, Default)]
struct Texts<'a> {
    cluster: Option<&'a str>,
    broker: Option<&'a str>,
    address: Option<&'a str>,
    id: Option<&'a str>,
    ha_address: Option<&'a str>,
    heartbeat_timeout: Option<&'a str>,
    acting_master: Option<&'a str>,
    compressed: Option<&'a str>,
    zone: Option<&'a str>,
    crc32: Option<&'a str>,
}

impl<'a> Texts<'a> {
    /// Goes over the fields once. Of several with one key the last counts, as in a Java map.
    fn of(command: &'a RemotingCommand) -> Self {
        let mut texts = Self::default();
        for (key, value) in command.ext.iter().flat_map(ExtFields::iter) {
            match key {
                "clusterName" => texts.cluster = value,
                "brokerName" => texts.broker = value,
                "brokerAddr" => texts.address = value,
                "brokerId" => texts.id = value,
                "haServerAddr" => texts.ha_address = value,
                "heartbeatTimeoutMillis" => texts.heartbeat_timeout = value,
                "enableActingMaster" => texts.acting_master = value,
                "compressed" => texts.compressed = value,
                "__ZONE_NAME" => texts.zone = value,
                "bodyCrc32" => texts.crc32 = value,
                _ => {}
            }
        }
        texts
    }

    fn digest(&self, version: i32) -> u128 {
        let mut hash = Xxh3::new();
        hash.update(&version.to_le_bytes());
        for text in [
            self.broker,
            self.address,
            self.cluster,
            self.ha_address,
            self.id,
            self.heartbeat_timeout,
            self.acting_master,
            self.compressed,
            self.zone,
        ] {
            // With its length, so that no text can pass for the end of one field and the beginning of the next.
            hash.update(&text.map_or(u64::MAX, |text| text.len() as u64).to_le_bytes());
            hash.update(text.unwrap_or_default().as_bytes());
        }
        hash.digest128()
    }
}
