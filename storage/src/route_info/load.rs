//! A state out of its chunks. Refuses what cannot be; never panics on damaged bytes.

use super::chunks::{CHUNK_FORMAT, CHUNK_HEAD_BYTES, CHUNK_PLAIN_BYTES_MAX, Head, Record};
use super::{BrokerKey, RouteInfo, StateHash, Topic, kv};
use crate::command::{Name, QueueConfig, StaticTopicInfo};
use crate::format::{self, FormatError};
use crate::limits::SNAPSHOT_RECORD_BYTES_MAX;
use imbl::{OrdMap, OrdSet};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Why chunks are no state.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Written by another version.
    #[error("snapshot chunk {chunk} has format {found}, this version reads {CHUNK_FORMAT}")]
    Format {
        /// Number of the chunk, from 0.
        chunk: u64,
        /// Its format.
        found: u8,
    },
    /// Does not decompress.
    #[error("snapshot chunk {chunk} is damaged: {reason}")]
    Chunk {
        /// Number of the chunk, from 0.
        chunk: u64,
        /// What is wrong.
        reason: String,
    },
    /// A record does not decode.
    #[error("snapshot record {record} is damaged: {source}")]
    Record {
        /// Number of the record, from 0.
        record: u64,
        /// Why.
        source: FormatError,
    },
    /// A record that cannot be there.
    #[error("snapshot record {record} is impossible: {reason}")]
    Order {
        /// Number of the record, from 0.
        record: u64,
        /// What is wrong.
        reason: String,
    },
    /// It ends too early.
    #[error("the snapshot ends after {records} records, before its end")]
    Truncated {
        /// Records that were read.
        records: u64,
    },
    /// The tables contradict each other.
    #[error("the snapshot holds an impossible state: {0}")]
    Impossible(String),
    /// The state is not the one that was written.
    #[error("the snapshot's state has hash {found}, it was written with {expected} (differs in {tables})")]
    Hash {
        /// As written.
        expected: StateHash,
        /// As loaded.
        found: StateHash,
        /// Tables that differ.
        tables: String,
    },
}

/// Builds a state from chunks, in order.
#[derive(Default)]
pub struct Loader {
    state: RouteInfo,
    /// Bytes of the stream that are no whole record yet.
    pending: Vec<u8>,
    chunks: u64,
    records: u64,
    rank: u8,
    hash: Option<StateHash>,
    /// One copy of each broker name, cluster and address.
    names: HashSet<Name>,
    topics_of: BTreeMap<Name, Vec<Name>>,
}

impl Loader {
    /// Begins.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next chunk.
    ///
    /// # Errors
    /// It is not what must follow.
    pub fn chunk(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        let plain = unpack(self.chunks, bytes)?;
        self.chunks += 1;
        self.pending.extend_from_slice(&plain);
        let mut from = 0;
        while let Some((record, length)) = self.next_record(from)? {
            from += length;
            self.take(record)?;
            self.records += 1;
        }
        self.pending.drain(..from);
        Ok(())
    }

    /// Ends: the state, if it is whole and possible.
    ///
    /// # Errors
    /// Chunks are missing, the tables contradict each other, or the hash is another.
    pub fn finish(mut self) -> Result<RouteInfo, LoadError> {
        let Some(expected) = self.hash.take().filter(|_| self.pending.is_empty()) else {
            return Err(LoadError::Truncated { records: self.records });
        };
        let indexes = std::mem::take(&mut self.topics_of).into_iter();
        self.state.topics_of = indexes.map(|(name, topics)| (name, OrdSet::from_iter(topics))).collect();
        self.state.check_invariants().map_err(LoadError::Impossible)?;
        let found = self.state.state_hash();
        if found != expected {
            let tables = found.differing(&expected).join(", ");
            return Err(LoadError::Hash { expected, found, tables });
        }
        self.state.bound_loaded_history();
        Ok(self.state)
    }

    /// The record that begins at an offset of the pending bytes, if it is there as a whole, and its length.
    fn next_record(&self, from: usize) -> Result<Option<(Record, usize)>, LoadError> {
        let record = self.records;
        let rest = self.pending.get(from..).unwrap_or_default();
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > SNAPSHOT_RECORD_BYTES_MAX {
            return Err(LoadError::Order { record, reason: format!("{length} bytes long") });
        }
        let Some(bytes) = rest.get(..length) else { return Ok(None) };
        let decoded = format::decode("snapshot record", bytes);
        Ok(Some((decoded.map_err(|source| LoadError::Record { record, source })?, 4 + length)))
    }

    fn take(&mut self, record: Record) -> Result<(), LoadError> {
        let rank = record.rank();
        let out_of_place = if self.records == 0 { rank != 0 } else { rank == 0 || rank < self.rank };
        if out_of_place || self.hash.is_some() {
            return Err(self.impossible("out of place"));
        }
        self.rank = rank;
        match record {
            Record::Head(head) => self.take_head(head),
            Record::End { records, hash } => {
                if records != self.records {
                    return Err(self.impossible(format!("it ends a stream of {records} records")));
                }
                self.hash = Some(hash);
            }
            Record::Topic(name, topic) => return self.take_topic(name, topic),
            Record::StaticInfo(topic, broker, info) => return self.take_static_info(topic, broker, info),
            Record::Kv(namespace, key, value) => return self.take_kv(&namespace, key, value),
            Record::Audit(record) => self.state.load_record(record),
            Record::EvictionGuard(at) => self.state.eviction_guard = Some(at),
            other => return self.take_row(other),
        }
        Ok(())
    }

    fn take_head(&mut self, head: Head) {
        self.state.revision = head.revision;
        self.state.brokers_version = head.brokers_version;
        self.state.settings_version = head.settings_version;
        self.state.settings = Arc::new(head.settings);
    }

    /// A row of a plain table.
    fn take_row(&mut self, record: Record) -> Result<(), LoadError> {
        let number = self.records;
        let Self { state, names, .. } = self;
        let fits = match record {
            Record::BrokerData(name, mut group) => {
                group.cluster = one_copy(names, &group.cluster);
                group.brokers = group.brokers.iter().map(|(id, a)| (*id, one_copy(names, a))).collect();
                append(&mut state.groups, one_copy(names, &name), group)
            }
            Record::Cluster(cluster, members) => {
                let sorted = members.is_sorted_by(|a, b| a < b);
                let members: OrdSet<Name> = members.iter().map(|name| one_copy(names, name)).collect();
                append(&mut state.clusters, one_copy(names, &cluster), members) && sorted
            }
            Record::BrokerLiveInfo(key, mut live) => {
                live.broker = one_copy(names, &live.broker);
                append(&mut state.live, one_key(names, &key), live)
            }
            Record::FilterServers(key, list) => append(&mut state.filter_servers, one_key(names, &key), list),
            Record::Namespace(namespace) => append(&mut state.kv, namespace, OrdMap::new()),
            Record::Deleted(topic, at) => {
                let topic = state.topics.get_key_value(&topic).map_or(topic, |(key, _)| key.clone());
                append(&mut state.deleted, topic, at)
            }
            _ => false,
        };
        if fits {
            Ok(())
        } else {
            Err(LoadError::Order { record: number, reason: "out of order, or there already".into() })
        }
    }

    fn take_topic(&mut self, name: Name, topic: Topic) -> Result<(), LoadError> {
        let queues: Vec<(Name, QueueConfig)> =
            topic.queues.iter().map(|(broker, queue)| (one_copy(&mut self.names, broker), *queue)).collect();
        for (broker, _) in &queues {
            match self.topics_of.get_mut(broker) {
                Some(topics) => topics.push(name.clone()),
                None => {
                    self.topics_of.insert(broker.clone(), vec![name.clone()]);
                }
            }
        }
        let topic = Topic { version: topic.version, queues: queues.into() };
        if append(&mut self.state.topics, name, topic) {
            Ok(())
        } else {
            Err(self.impossible("out of order"))
        }
    }

    fn take_static_info(
        &mut self,
        topic: Name,
        broker: Name,
        info: Arc<StaticTopicInfo>,
    ) -> Result<(), LoadError> {
        let broker = one_copy(&mut self.names, &broker);
        let infos = self.state.static_topics.entry(topic).or_default();
        if append(infos, broker, info) { Ok(()) } else { Err(self.impossible("out of order")) }
    }

    fn take_kv(&mut self, namespace: &Name, key: Name, value: Option<Name>) -> Result<(), LoadError> {
        self.state.count_kv(namespace, 0, kv::entry_bytes(&key, value.as_ref()));
        let keys = self.state.kv.get_mut(namespace);
        if keys.is_some_and(|keys| append(keys, key, value)) {
            Ok(())
        } else {
            Err(self.impossible("out of order, or its namespace is missing"))
        }
    }

    fn impossible(&self, reason: impl Into<String>) -> LoadError {
        LoadError::Order { record: self.records, reason: reason.into() }
    }
}

/// Adds the next row of a table; says no when it does not come after the last one.
fn append<K: Ord + Clone, V: Clone>(table: &mut OrdMap<K, V>, key: K, value: V) -> bool {
    let fits = table.get_max().is_none_or(|(last, _)| *last < key);
    if fits {
        table.insert(key, value);
    }
    fits
}

fn one_copy(names: &mut HashSet<Name>, name: &Name) -> Name {
    if let Some(known) = names.get(name) {
        return known.clone();
    }
    names.insert(name.clone());
    name.clone()
}

fn one_key(names: &mut HashSet<Name>, key: &BrokerKey) -> BrokerKey {
    BrokerKey { cluster: one_copy(names, &key.cluster), address: one_copy(names, &key.address) }
}

fn unpack(chunk: u64, bytes: &[u8]) -> Result<Vec<u8>, LoadError> {
    let damaged = |reason: String| LoadError::Chunk { chunk, reason };
    let Some((&[found, length @ ..], packed)) = bytes.split_first_chunk::<CHUNK_HEAD_BYTES>() else {
        return Err(damaged(format!("only {} bytes", bytes.len())));
    };
    if found != CHUNK_FORMAT {
        return Err(LoadError::Format { chunk, found });
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > CHUNK_PLAIN_BYTES_MAX {
        return Err(damaged(format!("claims {length} bytes, at most {CHUNK_PLAIN_BYTES_MAX} are allowed")));
    }
    let mut plain = vec![0; length];
    let written = lz4_flex::block::decompress_into(packed, &mut plain).map_err(|e| damaged(e.to_string()))?;
    if written != length {
        return Err(damaged(format!("holds {written} bytes instead of {length}")));
    }
    Ok(plain)
}
