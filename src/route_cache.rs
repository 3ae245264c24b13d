//! Caches encoded routes.
//!
//! Reads fill the cache. An entry is valid while the versions of the topic and of the brokers are those at which it was
//! encoded. So a change of the tables has to drop nothing, and an unchanged registration invalidates nothing.

use crate::counter::Counter;
use crate::protocol::JsonStyle;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use storage::command::Name;
use storage::{Position, RouteInfo};

/// Parts with a lock each, so that connections rarely wait for each other.
const SHARDS: usize = 16;
/// Approximate cost of an entry beside its body, bytes.
const ENTRY_BYTES: usize = 192;

/// Bodies per topic and style, bounded in bytes.
#[derive(Debug)]
pub struct RouteCache {
    shards: Box<[Mutex<Shard>]>,
    shard_bytes_max: usize,
    hasher: RandomState,
    /// Look-ups that found a valid body.
    pub hits: Counter,
    /// Look-ups that had to encode one.
    pub misses: Counter,
}

#[derive(Debug, Default)]
struct Shard {
    standard: HashMap<Name, Entry>,
    old: HashMap<Name, Entry>,
    /// Keys in the order in which they are dropped; an entry that was used since gets a second chance.
    order: VecDeque<(Name, JsonStyle)>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    body: Bytes,
    topic: Position,
    brokers: Position,
    /// A revision at which it was valid.
    valid_at: Option<u64>,
    used: bool,
}

impl Shard {
    fn map(&mut self, style: JsonStyle) -> &mut HashMap<Name, Entry> {
        match style {
            JsonStyle::Standard => &mut self.standard,
            JsonStyle::Old => &mut self.old,
        }
    }

    fn shrink_to(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let Some((topic, style)) = self.order.pop_front() else { return };
            let Some(entry) = self.map(style).get_mut(&topic) else { continue };
            if std::mem::take(&mut entry.used) {
                self.order.push_back((topic, style));
                continue;
            }
            if let Some(entry) = self.map(style).remove(&topic) {
                self.bytes -= cost(&topic, &entry.body);
            }
        }
    }
}

fn cost(topic: &str, body: &Bytes) -> usize {
    topic.len() + body.len() + ENTRY_BYTES
}

impl RouteCache {
    /// A cache of about `bytes_max` at most; 0 keeps nothing.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            shard_bytes_max: bytes_max / SHARDS,
            hasher: RandomState::new(),
            hits: Counter::default(),
            misses: Counter::default(),
        }
    }

    /// The body of a topic's route as of `table`, encoded now unless the cache has it. `None` when `encode` returns
    /// none.
    pub fn body(
        &self,
        table: &RouteInfo,
        topic: &str,
        style: JsonStyle,
        encode: impl FnOnce() -> Option<Bytes>,
    ) -> Option<Bytes> {
        if let Some(body) = self.get(table, topic, style) {
            self.hits.add_one();
            return Some(body);
        }
        self.misses.add_one();
        let body = encode()?;
        self.insert(table, topic, style, body.clone());
        Some(body)
    }

    /// Size now, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|s| s.lock().unwrap_or_else(PoisonError::into_inner).bytes).sum()
    }

    fn shard(&self, topic: &str) -> Option<std::sync::MutexGuard<'_, Shard>> {
        let place = usize::try_from(self.hasher.hash_one(topic) % SHARDS as u64).unwrap_or(0);
        self.shards.get(place).map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn get(&self, table: &RouteInfo, topic: &str, style: JsonStyle) -> Option<Bytes> {
        let mut shard = self.shard(topic)?;
        let entry = shard.map(style).get_mut(topic)?;
        let revision = table.revision().map(|id| id.index);
        if entry.valid_at != revision {
            let valid = table.topic(topic).is_some_and(|now| now.version == entry.topic)
                && table.brokers_version() == entry.brokers;
            if !valid {
                return None;
            }
            entry.valid_at = revision;
        }
        entry.used = true;
        Some(entry.body.clone())
    }

    fn insert(&self, table: &RouteInfo, topic: &str, style: JsonStyle, body: Bytes) {
        let Some((name, version)) = table.topic(topic).map(|now| (Name::from(topic), now.version)) else {
            return;
        };
        let bytes = cost(topic, &body);
        if bytes > self.shard_bytes_max {
            return;
        }
        let entry = Entry {
            body,
            topic: version,
            brokers: table.brokers_version(),
            valid_at: table.revision().map(|id| id.index),
            used: false,
        };
        let Some(mut shard) = self.shard(topic) else { return };
        shard.bytes += bytes;
        match shard.map(style).insert(Name::clone(&name), entry) {
            Some(before) => shard.bytes -= cost(topic, &before.body),
            None => shard.order.push_back((name, style)),
        }
        shard.shrink_to(self.shard_bytes_max);
    }
}

#[cfg(test)]
mod tests;
