//! A state as bytes: one stream of records, cut into compressed chunks.
//!
//! ```text
//! stream  = record*            record = length u32 LE, then the record behind its format number
//! chunk   = CHUNK_FORMAT u8, plain length u32 LE, lz4 block of the next part of the stream
//! ```
//! Records come in a fixed order: one `Head`, the tables, one `End`. A record may span chunks.

use super::{AuditRecord, BrokerData, BrokerKey, BrokerLiveInfo, RouteInfo, StateHash, Topic};
use crate::command::{Name, StaticTopicInfo};
use crate::format::{self, FormatError};
use crate::snapshots::CHUNK_BYTES_MAX;
use crate::{LogId, Position, Settings};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Format of a chunk: its first byte.
pub const CHUNK_FORMAT: u8 = 1;

/// Bytes of the stream in one chunk. Leaves room for what lz4 adds to bytes that do not shrink.
pub(super) const CHUNK_PLAIN_BYTES_MAX: usize = CHUNK_BYTES_MAX - 1024;

/// Bytes before the compressed part of a chunk.
pub(super) const CHUNK_HEAD_BYTES: usize = 1 + 4;

/// One record of the stream. New variants go at the end; the order of records is that of [`Record::rank`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Record {
    /// First: what is not a table.
    Head(Head),
    /// A broker name.
    BrokerData(Name, BrokerData),
    /// A cluster and its broker names.
    Cluster(Name, Vec<Name>),
    /// A live broker.
    BrokerLiveInfo(BrokerKey, BrokerLiveInfo),
    /// A topic.
    Topic(Name, Topic),
    /// A broker's filter servers.
    FilterServers(BrokerKey, Arc<[Name]>),
    /// Topic, broker name, mapping.
    StaticInfo(Name, Name, Arc<StaticTopicInfo>),
    /// A KV namespace; its entries follow.
    Namespace(Name),
    /// Namespace, key, value.
    Kv(Name, Name, Option<Name>),
    /// A deleted topic.
    Deleted(Name, Position),
    /// A line of the history.
    Audit(AuditRecord),
    /// Last: the number of records before it and the hash of the state.
    End {
        /// Records before this one.
        records: u64,
        /// Hash of the state.
        hash: StateHash,
    },
    /// The mass eviction guard is active since this position.
    EvictionGuard(Position),
}

/// What is not a table.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) revision: Option<LogId>,
    pub(super) brokers_version: Position,
    pub(super) settings_version: Position,
    pub(super) settings: Settings,
}

impl Record {
    /// Records come in the order of their rank.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Head(_) => 0,
            Self::BrokerData(..) => 1,
            Self::Cluster(..) => 2,
            Self::BrokerLiveInfo(..) => 3,
            Self::Topic(..) => 4,
            Self::FilterServers(..) => 5,
            Self::StaticInfo(..) => 6,
            Self::Namespace(_) | Self::Kv(..) => 7,
            Self::Deleted(..) => 8,
            Self::Audit(_) => 9,
            Self::EvictionGuard(_) => 10,
            Self::End { .. } => 11,
        }
    }
}

/// The chunks of a state, made one at a time.
pub struct Chunks<'a> {
    records: Box<dyn Iterator<Item = Record> + Send + 'a>,
    /// The part of the stream that is not yet in a chunk.
    plain: Vec<u8>,
    failed: bool,
}

impl RouteInfo {
    /// The state as chunks, each at most [`CHUNK_BYTES_MAX`]. A clone of the table is cheap, so a snapshot takes
    /// one and reads it here while apply goes on.
    #[must_use]
    pub fn chunks(&self) -> Chunks<'_> {
        self.chunks_with(self.state_hash())
    }

    /// The same for a caller that needs the hash of the state itself: it takes long.
    #[must_use]
    pub fn chunks_with(&self, hash: StateHash) -> Chunks<'_> {
        Chunks { records: Box::new(self.records(hash)), plain: Vec::new(), failed: false }
    }

    fn records(&self, hash: StateHash) -> impl Iterator<Item = Record> + Send + '_ {
        let head = Record::Head(Head {
            revision: self.revision,
            brokers_version: self.brokers_version,
            settings_version: self.settings_version,
            settings: (*self.settings).clone(),
        });
        let tables = std::iter::once(head).chain(self.table_records());
        let mut count = 0;
        tables.map(Some).chain(std::iter::once(None)).map(move |record| match record {
            Some(record) => {
                count += 1;
                record
            }
            None => Record::End { records: count, hash: hash.clone() },
        })
    }

    fn table_records(&self) -> impl Iterator<Item = Record> + Send + '_ {
        let groups = self.groups.iter().map(|(name, group)| Record::BrokerData(name.clone(), group.clone()));
        let clusters = self
            .clusters
            .iter()
            .map(|(c, names)| Record::Cluster(c.clone(), names.iter().cloned().collect()));
        let live = self.live.iter().map(|(key, live)| Record::BrokerLiveInfo(key.clone(), live.clone()));
        let topics = self.topics.iter().map(|(name, topic)| Record::Topic(name.clone(), topic.clone()));
        let filters =
            self.filter_servers.iter().map(|(k, list)| Record::FilterServers(k.clone(), list.clone()));
        let statics = self.static_topics.iter().flat_map(|(topic, infos)| {
            infos.iter().map(|(name, info)| Record::StaticInfo(topic.clone(), name.clone(), info.clone()))
        });
        let kv = self.kv.iter().flat_map(|(namespace, keys)| {
            let entries =
                keys.iter().map(|(k, value)| Record::Kv(namespace.clone(), k.clone(), value.clone()));
            std::iter::once(Record::Namespace(namespace.clone())).chain(entries)
        });
        let deleted = self.deleted.iter().map(|(topic, at)| Record::Deleted(topic.clone(), *at));
        let audit = self.audit.iter().map(|record| Record::Audit(record.clone()));
        let guard = self.eviction_guard.map(Record::EvictionGuard);
        let tables = groups.chain(clusters).chain(live).chain(topics).chain(filters);
        tables.chain(statics).chain(kv).chain(deleted).chain(audit).chain(guard)
    }
}

impl Iterator for Chunks<'_> {
    type Item = Result<Vec<u8>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.plain.len() < CHUNK_PLAIN_BYTES_MAX && !self.failed {
            let Some(record) = self.records.next() else { break };
            if let Err(error) = append(&mut self.plain, &record) {
                self.failed = true;
                return Some(Err(error));
            }
        }
        if self.failed || self.plain.is_empty() {
            return None;
        }
        let rest = self.plain.split_off(self.plain.len().min(CHUNK_PLAIN_BYTES_MAX));
        let chunk = pack(&self.plain);
        self.plain = rest;
        Some(Ok(chunk))
    }
}

fn append(plain: &mut Vec<u8>, record: &Record) -> Result<(), FormatError> {
    let bytes = format::encode("snapshot record", record)?;
    let length = u32::try_from(bytes.len())
        .map_err(|e| FormatError::Broken { what: "snapshot record", reason: e.to_string() })?;
    plain.extend_from_slice(&length.to_le_bytes());
    plain.extend_from_slice(&bytes);
    Ok(())
}

/// One chunk of at most [`CHUNK_PLAIN_BYTES_MAX`] plain bytes.
pub(super) fn pack(plain: &[u8]) -> Vec<u8> {
    let length = u32::try_from(plain.len()).unwrap_or(u32::MAX);
    let packed = lz4_flex::block::compress(plain);
    let mut chunk = Vec::with_capacity(CHUNK_HEAD_BYTES + packed.len());
    chunk.push(CHUNK_FORMAT);
    chunk.extend_from_slice(&length.to_le_bytes());
    chunk.extend_from_slice(&packed);
    chunk
}
