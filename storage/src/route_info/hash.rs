//! A hash of a state, per table, so that nodes can compare what they hold and find where they differ.

use super::{BrokerKey, RouteInfo};
use crate::Position;
use crate::command::{Name, Origin, QueueConfig, StaticTopicInfo};
use serde::{Deserialize, Serialize};
use std::fmt;
use xxhash_rust::xxh3::Xxh3;

/// How a state is hashed. Only hashes of one format can be compared.
pub const HASH_FORMAT: u32 = 1;

/// Hashes of a state: 128 bits per table, and over all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateHash {
    /// See [`HASH_FORMAT`].
    pub format: u32,
    /// Table → hash, in a fixed order.
    pub tables: Vec<(Name, u128)>,
    /// Over the format and all tables.
    pub total: u128,
}

impl StateHash {
    /// Tables that differ from those of another hash; all of them when the formats differ.
    #[must_use]
    pub fn differing<'a>(&'a self, other: &'a Self) -> Vec<&'a str> {
        let same = |pair: &&(Name, u128)| self.format == other.format && other.tables.contains(pair);
        self.tables.iter().filter(|pair| !same(pair)).map(|(name, _)| &**name).collect()
    }
}

impl fmt::Display for StateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:032x}", self.format, self.total)
    }
}

/// Bytes collected before they go through the hash function, which is slow on small pieces.
const BLOCK_BYTES: usize = 64 << 10;

/// Values as bytes, each with its length or in a fixed width, so that no two states read the same.
struct Hasher {
    state: Xxh3,
    block: Vec<u8>,
}

impl Hasher {
    fn new() -> Self {
        Self { state: Xxh3::new(), block: Vec::with_capacity(BLOCK_BYTES) }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        if self.block.len() + bytes.len() > BLOCK_BYTES {
            self.state.update(&self.block);
            self.block.clear();
        }
        if bytes.len() > BLOCK_BYTES {
            self.state.update(bytes);
        } else {
            self.block.extend_from_slice(bytes);
        }
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    fn signed(&mut self, number: i64) {
        self.bytes(&number.to_le_bytes());
    }

    fn flag(&mut self, flag: bool) {
        self.bytes(&[u8::from(flag)]);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    fn optional(&mut self, text: Option<&Name>) {
        self.flag(text.is_some());
        self.text(text.map_or("", |text| text));
    }

    fn position(&mut self, at: Position) {
        self.number(at.index);
        self.number(u64::from(at.number));
    }

    fn queue(&mut self, queue: &QueueConfig) {
        for number in [queue.read, queue.write, queue.perm, queue.sys_flag] {
            self.bytes(&number.to_le_bytes());
        }
    }

    fn key(&mut self, key: &BrokerKey) {
        self.text(&key.cluster);
        self.text(&key.address);
    }

    fn static_info(&mut self, info: &StaticTopicInfo) {
        self.optional(info.topic.as_ref());
        self.optional(info.broker.as_ref());
        self.signed(i64::from(info.total_queues));
        self.signed(info.epoch);
        self.optional(info.scope.as_ref());
        self.flag(info.dirty);
        self.flag(info.current_ids.is_some());
        let ids = info.current_ids.iter().flatten();
        self.number(ids.clone().count() as u64);
        for (logical, physical) in ids {
            self.signed(i64::from(*logical));
            self.signed(i64::from(*physical));
        }
    }

    fn origin(&mut self, origin: &Origin) {
        self.number(origin.node);
        self.text(&origin.peer);
        self.number(origin.unix_ms);
    }

    fn finish(mut self) -> u128 {
        self.state.update(&self.block);
        self.block.clear();
        self.state.digest128()
    }
}

impl RouteInfo {
    /// Hashes the whole state: every stored value, whatever its history; the revision is not a part of it.
    /// Costs a walk over all tables.
    #[must_use]
    pub fn state_hash(&self) -> StateHash {
        let tables: Vec<(Name, u128)> = vec![
            ("topics".into(), self.hash_topics()),
            ("groups".into(), self.hash_groups()),
            ("clusters".into(), self.hash_clusters()),
            ("live".into(), self.hash_live()),
            ("filter_servers".into(), self.hash_filter_servers()),
            ("static_topics".into(), self.hash_static_topics()),
            ("kv".into(), self.hash_kv()),
            ("settings".into(), self.hash_settings()),
            ("audit".into(), self.hash_audit()),
            ("versions".into(), self.hash_versions()),
        ];
        let mut total = Hasher::new();
        total.number(u64::from(HASH_FORMAT));
        for (name, hash) in &tables {
            total.text(name);
            total.bytes(&hash.to_le_bytes());
        }
        StateHash { format: HASH_FORMAT, tables, total: total.finish() }
    }

    fn hash_topics(&self) -> u128 {
        let mut h = Hasher::new();
        for (name, topic) in &self.topics {
            h.text(name);
            h.position(topic.version);
            h.number(topic.queues.len() as u64);
            for (broker, queue) in topic.queues.iter() {
                h.text(broker);
                h.queue(queue);
            }
        }
        h.finish()
    }

    fn hash_groups(&self) -> u128 {
        let mut h = Hasher::new();
        for (name, group) in &self.groups {
            h.text(name);
            h.text(&group.cluster);
            h.optional(group.zone.as_ref());
            h.flag(group.acting_master);
            h.position(group.version);
            h.number(group.brokers.len() as u64);
            for (id, address) in group.brokers.iter() {
                h.signed(*id);
                h.text(address);
            }
        }
        h.finish()
    }

    fn hash_clusters(&self) -> u128 {
        let mut h = Hasher::new();
        for (cluster, names) in &self.clusters {
            h.text(cluster);
            h.number(names.len() as u64);
            for name in names {
                h.text(name);
            }
        }
        h.finish()
    }

    fn hash_live(&self) -> u128 {
        let mut h = Hasher::new();
        for (key, live) in &self.live {
            h.key(key);
            h.text(&live.broker);
            h.signed(live.id);
            h.signed(live.data_version.state_version);
            h.signed(live.data_version.timestamp);
            h.signed(live.data_version.counter);
            h.number(live.timeout_ms);
            h.optional(live.ha_address.as_ref());
            h.position(live.incarnation);
        }
        h.finish()
    }

    fn hash_filter_servers(&self) -> u128 {
        let mut h = Hasher::new();
        for (key, list) in &self.filter_servers {
            h.key(key);
            h.number(list.len() as u64);
            for server in list.iter() {
                h.text(server);
            }
        }
        h.finish()
    }

    fn hash_static_topics(&self) -> u128 {
        let mut h = Hasher::new();
        for (topic, infos) in &self.static_topics {
            h.text(topic);
            h.number(infos.len() as u64);
            for (broker, info) in infos {
                h.text(broker);
                h.static_info(info);
            }
        }
        h.finish()
    }

    fn hash_kv(&self) -> u128 {
        let mut h = Hasher::new();
        for (namespace, keys) in &self.kv {
            h.text(namespace);
            h.number(keys.len() as u64);
            for (key, value) in keys {
                h.text(key);
                h.optional(value.as_ref());
            }
        }
        h.finish()
    }

    fn hash_settings(&self) -> u128 {
        let mut h = Hasher::new();
        for (name, text) in self.settings.properties() {
            h.text(name);
            h.text(&text);
        }
        h.finish()
    }

    fn hash_audit(&self) -> u128 {
        let mut h = Hasher::new();
        for record in &self.audit {
            h.position(record.at);
            h.origin(&record.origin);
            // Events have many shapes and only ever grow: their stored form stands for them.
            let event = crate::format::encode("event", &record.event).unwrap_or_default();
            h.number(event.len() as u64);
            h.bytes(&event);
        }
        h.finish()
    }

    fn hash_versions(&self) -> u128 {
        let mut h = Hasher::new();
        h.position(self.brokers_version);
        h.position(self.settings_version);
        for (topic, at) in &self.deleted {
            h.text(topic);
            h.position(*at);
        }
        // Hashed only while it is active: states without it keep the hash of format 1.
        if let Some(at) = self.eviction_guard {
            h.text("eviction_guard");
            h.position(at);
        }
        h.finish()
    }
}
