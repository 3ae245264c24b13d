//! openraft's state machine over [`RouteInfo`]. Only it changes the tables.

use super::applied_state::{AppliedState, AppliedStatePublisher};
use super::snapshot::{self, SnapshotData, Staged};
use super::types::{
    EntryOutcomes, RaftEntry, RaftLogId, RaftSnapshotMeta, StoredMembership, Types, log_id, raft_log_id,
};
use crate::local::{background, blocking};
use futures_util::{Stream, TryStreamExt};
use openraft::EntryPayload;
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use std::io;
use std::sync::Arc;
use storage::runtime::Runtime;
use storage::snapshots::{SnapshotMeta, Snapshots};
use storage::{Command, RouteInfo, format};

/// Entries are applied in slices of about so many bytes.
const SLICE_BYTES: usize = 256 << 10;
/// And of at most so many entries.
const SLICE_ENTRIES: usize = 512;
/// A slice of no more bytes is applied at once.
const INLINE_BYTES_MAX: usize = 16 << 10;

/// openraft's snapshot.
type RaftSnapshot = openraft::type_config::alias::SnapshotOf<Types, SnapshotData>;

/// The state machine.
pub(crate) struct StateMachine {
    tables: Tables,
    publisher: Arc<AppliedStatePublisher>,
    snapshots: Arc<dyn Snapshots>,
    runtime: Arc<dyn Runtime>,
}

/// What entries change.
#[derive(Default)]
struct Tables {
    table: RouteInfo,
    membership: Arc<StoredMembership>,
}

impl StateMachine {
    /// An empty one; openraft installs the newest snapshot.
    pub(crate) fn new(
        publisher: Arc<AppliedStatePublisher>,
        snapshots: Arc<dyn Snapshots>,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        Self { tables: Tables::default(), publisher, snapshots, runtime }
    }

    /// Applies entries in order. Many bytes of them on a thread that may block: openraft's core and its heartbeats
    /// share the thread of this call.
    async fn apply_slice(&mut self, slice: Slice) -> io::Result<()> {
        let publisher = Arc::clone(&self.publisher);
        let mut tables = std::mem::take(&mut self.tables);
        let bytes = slice.bytes;
        let apply = move || {
            for (entry, responder) in slice.entries {
                let outcomes = tables.apply(entry, &publisher)?;
                if let Some(responder) = responder {
                    responder.send(outcomes);
                }
            }
            Ok(tables)
        };
        self.tables = if bytes > INLINE_BYTES_MAX { blocking(apply).await? } else { apply()? };
        Ok(())
    }
}

/// Entries that are applied together.
#[derive(Default)]
struct Slice {
    entries: Vec<EntryResponder<Types>>,
    bytes: usize,
}

impl Slice {
    fn push(&mut self, (entry, responder): EntryResponder<Types>) {
        if let EntryPayload::Normal(batch) = &entry.payload {
            self.bytes += batch.0.len();
        }
        self.entries.push((entry, responder));
    }
}

impl Tables {
    fn state(&self) -> AppliedState {
        // Cheap: the maps share what did not change.
        AppliedState { table: Arc::new(self.table.clone()), membership: Arc::clone(&self.membership) }
    }

    fn apply(&mut self, entry: RaftEntry, publisher: &AppliedStatePublisher) -> io::Result<EntryOutcomes> {
        let id = log_id(&entry.log_id);
        let is_of_commands = matches!(entry.payload, EntryPayload::Normal(_));
        let commands: Vec<Command> = match entry.payload {
            EntryPayload::Blank => Vec::new(),
            // An entry that does not decode was written by a newer version, or is damaged: skipping it would let this
            // node's tables differ from the others'.
            EntryPayload::Normal(batch) => format::decode("log entry", &batch.0).map_err(|e| {
                io::Error::new(io::ErrorKind::InvalidData, format!("entry {id} cannot be applied: {e}"))
            })?,
            EntryPayload::Membership(membership) => {
                self.membership = Arc::new(StoredMembership::new(Some(entry.log_id), membership));
                Vec::new()
            }
        };
        let applied = self.table.apply_entry(id, &commands);
        publisher.publish_entry(self.state(), id, applied.events, is_of_commands);
        Ok(EntryOutcomes(applied.outcomes))
    }
}

impl RaftStateMachine<Types> for StateMachine {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> io::Result<(Option<RaftLogId>, StoredMembership)> {
        Ok((self.tables.table.revision().map(raft_log_id), self.tables.membership.as_ref().clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + Send,
    {
        let mut slice = Slice::default();
        while let Some(next) = entries.try_next().await? {
            slice.push(next);
            if slice.bytes >= SLICE_BYTES || slice.entries.len() >= SLICE_ENTRIES {
                self.apply_slice(std::mem::take(&mut slice)).await?;
            }
        }
        self.apply_slice(slice).await
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<SnapshotBuilder> {
        // The snapshot driver makes snapshots beside openraft, so that a full disk is not the end of the core;
        // openraft only gets the one that is stored.
        let ready = if force { None } else { Some(self.snapshots.latest()?) };
        let snapshots = Arc::clone(&self.snapshots);
        Some(SnapshotBuilder {
            state: self.tables.state(),
            ready,
            snapshots,
            unix_ms: self.runtime.unix_ms(),
        })
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        let snapshots = Arc::clone(&self.snapshots);
        SnapshotBuilder {
            state: self.tables.state(),
            ready: None,
            snapshots,
            unix_ms: self.runtime.unix_ms(),
        }
    }

    async fn install_snapshot(&mut self, meta: &RaftSnapshotMeta, data: SnapshotData) -> io::Result<()> {
        let snapshots = Arc::clone(&self.snapshots);
        let membership = Arc::new(meta.last_membership.clone());
        let table = blocking(move || match data {
            SnapshotData::Stored(stored, source) => {
                let table = Arc::new(snapshot::load(&stored, &source)?);
                // Does nothing when it is this node's own store. Only openraft's suite has another one.
                let state = AppliedState { table: Arc::clone(&table), membership };
                snapshot::build(&state, &snapshots, stored.unix_ms)?;
                Ok(Arc::unwrap_or_clone(table))
            }
            SnapshotData::Staged(staged) => {
                let Staged { writer, table } = *staged;
                writer.commit().map(|()| table)
            }
            SnapshotData::Empty => Ok(RouteInfo::default()),
        })
        .await?;
        if !snapshot::describes(meta, &table) {
            return Err(io::Error::other(format!("snapshot {meta} holds revision {:?}", table.revision())));
        }
        let Some(id) = table.revision() else {
            return Err(io::Error::other("snapshot of an empty state"));
        };
        // Both together, and only now that the whole snapshot is there.
        let tables = Tables { table, membership: Arc::new(meta.last_membership.clone()) };
        let replaced = std::mem::replace(&mut self.tables, tables);
        self.publisher.publish_snapshot(self.tables.state(), id);
        // The last user of a whole state takes long to drop it.
        background(move || drop(replaced)).await
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<RaftSnapshot>> {
        self.snapshots.latest().map(|meta| stored(meta, &self.snapshots)).transpose()
    }
}

/// Gives openraft a snapshot.
pub(crate) struct SnapshotBuilder {
    state: AppliedState,
    ready: Option<SnapshotMeta>,
    snapshots: Arc<dyn Snapshots>,
    unix_ms: u64,
}

impl RaftSnapshotBuilder<Types> for SnapshotBuilder {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> io::Result<RaftSnapshot> {
        if let Some(meta) = self.ready.take() {
            return stored(meta, &self.snapshots);
        }
        if self.state.table.revision().is_none() {
            return Ok(RaftSnapshot { meta: RaftSnapshotMeta::default(), snapshot: SnapshotData::Empty });
        }
        let (state, snapshots, unix_ms) = (self.state.clone(), Arc::clone(&self.snapshots), self.unix_ms);
        let (meta, _) = blocking(move || snapshot::build(&state, &snapshots, unix_ms)).await?;
        stored(meta, &self.snapshots)
    }
}

fn stored(meta: SnapshotMeta, source: &Arc<dyn Snapshots>) -> io::Result<RaftSnapshot> {
    let raft_meta = snapshot::raft_meta(&meta)?;
    Ok(RaftSnapshot { meta: raft_meta, snapshot: SnapshotData::Stored(meta, Arc::clone(source)) })
}
