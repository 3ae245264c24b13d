//! The checker.

use super::Parts;
use super::content::{snapshot_chunk, snapshot_chunks, snapshot_meta};
use super::facts::Fact;
use std::error::Error;
use std::fmt;
use std::path::Path;
use storage::LogId;
use storage::snapshots::{KEPT_MAX, SledSnapshots, Snapshots};

/// What is on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Snapshots, oldest first.
    pub snapshots: Vec<LogId>,
}

/// What a check came to.
#[derive(Debug)]
pub struct Summary {
    /// What is on disk.
    pub found: Found,
    /// Snapshots acknowledged by this writer.
    pub snapshots_acknowledged: usize,
    /// The writer was killed while a snapshot was being committed.
    pub in_snapshot: bool,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = |ids: &[LogId]| ids.last().map_or("none".to_owned(), LogId::to_string);
        let newest = last(&self.found.snapshots);
        write!(f, "{} snapshots acknowledged, newest {newest}", self.snapshots_acknowledged)?;
        f.write_str(if self.in_snapshot { ", killed while committing one" } else { "" })
    }
}

/// Opens a directory and compares it with a writer's facts, and with what the check before found (if there was one).
///
/// # Errors
/// Anything acknowledged is missing, anything is damaged, or something is there that was never written.
pub fn check(
    directory: &Path,
    _parts: Parts,
    facts: &str,
    before: Option<&Found>,
) -> Result<Summary, Box<dyn Error>> {
    let facts = Fact::parse_all(facts);
    let found = Found { snapshots: read_snapshots(directory)? };
    if !facts.contains(&Fact::Ready) {
        // It was killed while it opened: nothing may have changed.
        if before.is_some_and(|before| *before != found) {
            return Err(format!("opening changed {before:?} to {found:?}").into());
        }
        return Ok(Summary { found, snapshots_acknowledged: 0, in_snapshot: false });
    }
    let snapshots = Said::of(&facts);
    if before.is_some_and(|before| before.snapshots != snapshots.base) {
        return Err(format!("the check before found {before:?}, the writer {:?}", snapshots.base).into());
    }
    snapshots.check(&found.snapshots)?;
    Ok(Summary {
        found,
        snapshots_acknowledged: snapshots.acknowledged.len(),
        in_snapshot: snapshots.tried.is_some(),
    })
}

/// What the writer said of snapshots.
#[derive(Debug, Default)]
struct Said {
    base: Vec<LogId>,
    acknowledged: Vec<LogId>,
    /// Begun to be committed and not acknowledged.
    tried: Option<LogId>,
}

impl Said {
    fn of(facts: &[Fact]) -> Self {
        let mut said = Self::default();
        for fact in facts {
            match fact {
                Fact::BaseSnapshot(last) => said.base.push(*last),
                Fact::TrySnapshot(last) => said.tried = Some(*last),
                Fact::OkSnapshot(last) => {
                    said.acknowledged.push(*last);
                    said.tried = None;
                }
                Fact::Ready => {}
            }
        }
        said
    }

    fn check(&self, found: &[LogId]) -> Result<(), String> {
        let mut acknowledged = self.base.clone();
        acknowledged.extend(&self.acknowledged);
        let mut with_tried = acknowledged.clone();
        with_tried.extend(self.tried);
        if newest(&acknowledged) == found || newest(&with_tried) == found {
            return Ok(());
        }
        Err(format!(
            "snapshots {found:?} are there; acknowledged {:?}, tried {:?}",
            newest(&acknowledged),
            self.tried
        ))
    }
}

fn newest(ids: &[LogId]) -> &[LogId] {
    ids.get(ids.len().saturating_sub(KEPT_MAX)..).unwrap_or_default()
}

/// Reads every snapshot and compares each byte.
fn read_snapshots(directory: &Path) -> Result<Vec<LogId>, Box<dyn Error>> {
    let snapshots = SledSnapshots::open(&directory.join("snapshots"))?;
    for meta in snapshots.all() {
        let last = meta.last;
        if meta != snapshot_meta(last) {
            return Err(format!("snapshot {last} has another description").into());
        }
        let chunks = snapshot_chunks(last);
        for number in 0..chunks {
            if snapshots.chunk(last, number)? != Some(snapshot_chunk(last, number)) {
                return Err(format!("snapshot {last}: chunk {number} of {chunks} is another").into());
            }
        }
        if snapshots.chunk(last, chunks)?.is_some() {
            return Err(format!("snapshot {last} has more than {chunks} chunks").into());
        }
    }
    Ok(snapshots.all().iter().map(|meta| meta.last).collect())
}
