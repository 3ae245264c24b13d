//! The writer.

use super::Parts;
use super::content::{SplitMix, snapshot_chunk, snapshot_chunks, snapshot_meta};
use super::facts::{Fact, Facts};
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use storage::LogId;
use storage::snapshots::{SledSnapshots, Snapshots};

/// Writes until it is killed.
///
/// # Errors
/// Anything fails.
pub fn write(
    directory: &Path,
    parts: Parts,
    seed: u64,
    facts: Box<dyn Write + Send>,
) -> Result<(), Box<dyn Error>> {
    let facts = Facts::new(facts);
    let mut random = SplitMix(seed);
    let snapshots = SledSnapshots::open(&directory.join("snapshots"))?;
    for meta in snapshots.all() {
        facts.say(&Fact::BaseSnapshot(meta.last))?;
    }
    facts.say(&Fact::Ready)?;
    let mut last = snapshots.latest().map_or(LogId::default(), |meta| meta.last);
    if !parts.snapshots {
        return Ok(());
    }
    loop {
        last.index += 1 + random.below(3);
        write_snapshot(&snapshots, last, &facts)?;
    }
}

fn write_snapshot(snapshots: &dyn Snapshots, last: LogId, facts: &Facts) -> io::Result<()> {
    let mut writer = snapshots.begin(snapshot_meta(last))?;
    for number in 0..snapshot_chunks(last) {
        writer.chunk(&snapshot_chunk(last, number))?;
    }
    facts.say(&Fact::TrySnapshot(last))?;
    writer.commit()?;
    facts.say(&Fact::OkSnapshot(last))
}
