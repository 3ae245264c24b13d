//! Makes what recovery found the durable beginning of what comes: puts a torn tail aside, cuts it off, and syncs
//! what may not have been.

use super::recovery::Scan;
use super::segment::SEGMENT_HEADER_BYTES;
use super::{Cut, Place};
use crate::directory::OpenError;
use crate::files::{Files, read_exact_at};
use crate::marker::MarkerFile;
use std::io;
use std::path::Path;

/// So many copies of torn tails are kept at most.
const COPIES_MAX: usize = 16;
const COPY_PREFIX: &str = "cut-";

/// Cuts a torn tail off: copied aside, noted in the marker, then overwritten with zeros; each step synced.
/// Repeating it after a crash at any point is safe.
pub(crate) fn cut_tail(
    files: &dyn Files,
    dir: &Path,
    marker: &MarkerFile,
    scan: &Scan,
) -> Result<(), OpenError> {
    let (Some((error, torn)), Some(segment)) = (&scan.torn, scan.segments.back()) else { return Ok(()) };
    let copy = copy_aside(files, dir, (segment.number, scan.end), torn)
        .map_err(OpenError::io("copy the torn tail of the log into", dir))?;
    tracing::warn!(
        segment = segment.number,
        offset = scan.end,
        bytes = torn.len(),
        last = ?scan.held.ends.last,
        copy,
        "the log ends in a write that was never finished ({error}): it is cut off there",
    );
    let cut = Cut {
        place: Place { segment: segment.number, offset: scan.end },
        bytes: torn.len() as u64,
        last: scan.held.ends.last,
        copy,
    };
    marker.update(|marker| marker.cut = Some(cut)).map_err(OpenError::io("write the marker beside", dir))?;
    let zeros = vec![0; torn.len()];
    let cut = segment.file.write_at(&zeros, scan.end).and_then(|()| segment.file.sync());
    cut.map_err(OpenError::io("cut the torn tail off", &segment.path))
}

/// Copies a torn tail to a file of its own and gives its name. A crash while it is cut off makes a second copy, of
/// what is left; the oldest copies of all go when there are many.
fn copy_aside(files: &dyn Files, dir: &Path, (segment, end): (u64, u64), torn: &[u8]) -> io::Result<String> {
    let mut copies = files.list(dir)?;
    copies.retain(|name| name.starts_with(COPY_PREFIX));
    let of_place = format!("{COPY_PREFIX}{segment:020}-{end:012}-");
    let number = copies.iter().filter_map(|name| name.strip_prefix(&of_place)?.parse::<u32>().ok()).max();
    let name = format!("{of_place}{:06}", number.map_or(0, |number| number.saturating_add(1)));
    for oldest in copies.iter().take((copies.len() + 1).saturating_sub(COPIES_MAX)) {
        files.remove(&dir.join(oldest))?;
    }
    let file = files.create(&dir.join(&name))?;
    file.write_at(torn, 0)?;
    file.sync()?;
    files.sync_dir(dir)?;
    Ok(name)
}

/// Makes everything that was read durable. What no claim covers is written again first: after a failed sync the
/// kernel may hold pages that it takes for clean and never wrote.
pub(crate) fn settle(files: &dyn Files, dir: &Path, scan: &Scan) -> Result<(), OpenError> {
    for path in &scan.unfinished {
        files.remove(path).map_err(OpenError::io("remove the unfinished", path))?;
    }
    for segment in scan.segments.iter().filter(|segment| segment.number >= scan.claimed.segment) {
        let from = if segment.number == scan.claimed.segment { scan.claimed.offset } else { 0 };
        let from = from.max(SEGMENT_HEADER_BYTES);
        let is_last = scan.segments.back().is_some_and(|last| last.number == segment.number);
        let length = segment.file.length().map_err(OpenError::io("read", &segment.path))?;
        let to = if is_last { scan.end } else { length };
        let rewritten =
            usize::try_from(to.saturating_sub(from)).map_err(io::Error::other).and_then(|length| {
                let bytes = read_exact_at(&*segment.file, from, length)?;
                if !bytes.is_empty() {
                    segment.file.write_at(&bytes, from)?;
                }
                segment.file.sync()
            });
        rewritten.map_err(OpenError::io("sync", &segment.path))?;
    }
    files.sync_dir(dir).map_err(OpenError::io("sync", dir))
}
