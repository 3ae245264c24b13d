//! The checker.

use super::Parts;
use super::content::{snapshot_chunk, snapshot_chunks, snapshot_meta};
use super::history::HistoryEvent;
use super::model::{Model, Operation};
use super::write::open;
use std::error::Error;
use std::fmt;
use std::path::Path;
use storage::LogId;
use storage::snapshots::{KEPT_MAX, SledSnapshots, Snapshots};

/// What is on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Log and vote.
    pub log: Model,
    /// Snapshots, oldest first.
    pub snapshots: Vec<LogId>,
}

/// What a check came to.
#[derive(Debug, Default)]
pub struct Summary {
    /// What is on disk.
    pub found: Found,
    /// Operations of the log acknowledged by this writer.
    pub acknowledged: u64,
    /// Calls after those.
    pub in_flight: Vec<Operation>,
    /// Snapshots acknowledged by this writer.
    pub snapshots_acknowledged: usize,
    /// The writer was killed while a snapshot was being committed.
    pub in_snapshot: bool,
    /// It was one that is ahead of the log, as a node installs it.
    pub in_install: bool,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |id: Option<LogId>| id.map_or("none".to_owned(), |id| id.to_string());
        let (last, purged) = (shown(self.found.log.last()), shown(self.found.log.purged));
        write!(
            f,
            "log: {} acknowledged, {} in flight, last {last}, ",
            self.acknowledged,
            self.in_flight.len()
        )?;
        let newest = shown(self.found.snapshots.last().copied());
        write!(
            f,
            "purged {purged}; snapshots: {} acknowledged, newest {newest}",
            self.snapshots_acknowledged
        )?;
        f.write_str(match (self.in_install, self.in_snapshot) {
            (true, _) => ", cut off while installing one",
            (false, true) => ", cut off while committing one",
            (false, false) => "",
        })
    }
}

/// Opens a directory and compares it with a writer's history, and with what the check before found (if there was one).
///
/// # Errors
/// Anything acknowledged is missing, anything is damaged, or something is there that was never written.
pub fn check(
    directory: &Path,
    parts: Parts,
    history: &str,
    before: Option<&Found>,
) -> Result<Summary, Box<dyn Error>> {
    let history = HistoryEvent::parse_all(history);
    let found = read(directory, parts)?;
    if !history.contains(&HistoryEvent::Ready) {
        // It was killed while it opened: nothing may have changed.
        if before.is_some_and(|before| *before != found) {
            return Err(format!("opening changed {before:?} to {found:?}").into());
        }
        return Ok(Summary { found, ..Summary::default() });
    }
    let reported = Reported::of(&history)?;
    if before
        .is_some_and(|before| before.snapshots != reported.base.snapshots || before.log != reported.base.log)
    {
        return Err(format!("the check before found {before:?}, the writer {:?}", reported.base).into());
    }
    reported.check_snapshots(&found.snapshots)?;
    reported.check_log(&found.log)?;
    Ok(Summary {
        acknowledged: reported.acknowledged,
        snapshots_acknowledged: reported.snapshots.len(),
        in_snapshot: reported.tried.is_some(),
        in_install: reported.in_install(),
        in_flight: reported.in_flight(),
        found,
    })
}

/// What the writer reported in its history.
#[derive(Debug, Default)]
struct Reported {
    base: Found,
    /// The calls of the log, in order.
    operations: Vec<Operation>,
    /// How many of them are acknowledged.
    acknowledged: u64,
    /// Snapshots acknowledged.
    snapshots: Vec<LogId>,
    /// The snapshot begun to be committed and not acknowledged.
    tried: Option<LogId>,
}

impl Reported {
    fn of(history: &[HistoryEvent]) -> Result<Self, String> {
        let mut reported = Self::default();
        for event in history {
            match *event {
                HistoryEvent::BaseVote(vote) => reported.base.log.vote = Some(vote),
                HistoryEvent::BasePurged(purged) => reported.base.log.purged = Some(purged),
                HistoryEvent::BaseEntries(term, first, count) => {
                    reported.base.log.apply(Operation::Append { term, first, count });
                }
                HistoryEvent::BaseSnapshot(last) => reported.base.snapshots.push(last),
                HistoryEvent::Ready => {}
                HistoryEvent::Try(_, operation) => reported.operations.push(operation),
                HistoryEvent::Ok(number) if number == reported.acknowledged + 1 => {
                    reported.acknowledged = number
                }
                HistoryEvent::Ok(number) => {
                    return Err(format!("{number} was acknowledged right after {}", reported.acknowledged));
                }
                HistoryEvent::TrySnapshot(last) => reported.tried = Some(last),
                HistoryEvent::OkSnapshot(last) => {
                    reported.snapshots.push(last);
                    reported.tried = None;
                }
            }
        }
        Ok(reported)
    }

    fn in_flight(&self) -> Vec<Operation> {
        let acknowledged = usize::try_from(self.acknowledged).unwrap_or(usize::MAX);
        self.operations.get(acknowledged..).unwrap_or_default().to_vec()
    }

    /// Whether the snapshot in flight is ahead of all calls of the log.
    fn in_install(&self) -> bool {
        let mut log = self.base.log.clone();
        self.operations.iter().for_each(|operation| log.apply(*operation));
        self.tried.is_some_and(|tried| log.last().is_none_or(|last| tried.index > last.index))
    }

    fn check_snapshots(&self, found: &[LogId]) -> Result<(), String> {
        let mut acknowledged = self.base.snapshots.clone();
        acknowledged.extend(&self.snapshots);
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

    /// The log must be as it was after some number of operations: all acknowledged ones and maybe some more. Of the
    /// first that is missing, the first entries may be there.
    fn check_log(&self, found: &Model) -> Result<(), String> {
        let mut model = self.base.log.clone();
        let acknowledged = usize::try_from(self.acknowledged).map_err(|e| e.to_string())?;
        let (certain, possible) =
            self.operations.split_at_checked(acknowledged).ok_or("acknowledged, not tried")?;
        certain.iter().for_each(|operation| model.apply(*operation));
        let expected = model.clone();
        for operation in possible {
            if model == *found {
                return Ok(());
            }
            if let Operation::Append { term, first, count } = *operation {
                for part in 1..count {
                    let mut partly = model.clone();
                    partly.apply(Operation::Append { term, first, count: part });
                    if partly == *found {
                        return Ok(());
                    }
                }
            }
            model.apply(*operation);
        }
        if model == *found {
            return Ok(());
        }
        Err(format!(
            "the log is in none of the states that it can be in\nacknowledged: {}\nthen tried: {possible:?}\nfound: {}",
            brief(&expected),
            brief(found)
        ))
    }
}

fn brief(model: &Model) -> String {
    format!(
        "vote {:?}, purged {:?}, entries (term, first, count) {:?}",
        model.vote,
        model.purged,
        model.runs()
    )
}

fn newest(ids: &[LogId]) -> &[LogId] {
    ids.get(ids.len().saturating_sub(KEPT_MAX)..).unwrap_or_default()
}

fn read(directory: &Path, parts: Parts) -> Result<Found, Box<dyn Error>> {
    let (opened, snapshots) = open(directory, 16 << 20)?;
    let found = Found { log: Model::read(&*opened.log)?, snapshots: read_snapshots(&snapshots)? };
    let newest = found.snapshots.last().copied();
    if parts.snapshots && parts.log && found.log.purged > newest {
        return Err(
            format!("purged up to {:?}, but the newest snapshot is {newest:?}", found.log.purged).into()
        );
    }
    let marked = opened.directory.marker().get().snapshot;
    if marked > newest {
        return Err(format!("the marker names snapshot {marked:?}, the newest is {newest:?}").into());
    }
    Ok(found)
}

/// Reads every snapshot and compares each byte.
fn read_snapshots(snapshots: &SledSnapshots) -> Result<Vec<LogId>, Box<dyn Error>> {
    for meta in snapshots.all() {
        let last = meta.last;
        if meta != snapshot_meta(last) {
            return Err(format!("snapshot {last} has another description").into());
        }
        let chunks = snapshot_chunks(last);
        let reader = snapshots.open(last)?;
        for number in 0..chunks {
            if reader.chunk(number)? != Some(snapshot_chunk(last, number)) {
                return Err(format!("snapshot {last}: chunk {number} of {chunks} is another").into());
            }
        }
        if reader.chunk(chunks)?.is_some() {
            return Err(format!("snapshot {last} has more than {chunks} chunks").into());
        }
    }
    Ok(snapshots.all().iter().map(|meta| meta.last).collect())
}
