//! Makes what recovery found durable before the log goes on: copies a torn tail aside, truncates it, and syncs what may
//! not have been synced.

use super::recovery::Scan;
use super::segment::SEGMENT_HEADER_BYTES;
use crate::files::{Files, read_exact_at};
use crate::log_place::{LogPlace, TruncatedTail};
use crate::marker::MarkerFile;
use crate::open_error::OpenError;
use std::io;
use std::path::Path;

/// So many copies of torn tails are kept at most.
const COPIES_MAX: usize = 16;
const COPY_PREFIX: &str = "cut-";

/// Truncates a torn tail: copies it aside, notes it in the marker, then overwrites it with zeros; each step is synced.
/// Repeating it after a crash at any point is safe.
pub(crate) fn truncate_tail(
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
        last = ?scan.log_index.ends.last,
        copy,
        "the log ends in a write that was never finished ({error}): it is cut off there",
    );
    let truncated = TruncatedTail {
        place: LogPlace { segment: segment.number, offset: scan.end },
        bytes: torn.len() as u64,
        last: scan.log_index.ends.last,
        copy,
    };
    marker
        .update(|marker| marker.truncated_tail = Some(truncated))
        .map_err(OpenError::io("write the marker beside", dir))?;
    let zeros = vec![0; torn.len()];
    let truncated = segment.file.write_at(&zeros, scan.end).and_then(|()| segment.file.sync());
    truncated.map_err(OpenError::io("cut the torn tail off", &segment.path))
}

/// Copies a torn tail to a file of its own and gives its name. A crash between copy and truncation makes a
/// second copy, of what is left; the oldest copies of all go when there are many.
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

/// Makes everything that was read durable. What lies beyond the synced watermark is written again first: after a failed
/// sync the kernel may hold pages that it takes for clean and never wrote.
pub(crate) fn sync_read(files: &dyn Files, dir: &Path, scan: &Scan) -> Result<(), OpenError> {
    for path in &scan.unfinished {
        files.remove(path).map_err(OpenError::io("remove the unfinished", path))?;
    }
    for segment in scan.segments.iter().filter(|segment| segment.number >= scan.synced_watermark.segment) {
        let from =
            if segment.number == scan.synced_watermark.segment { scan.synced_watermark.offset } else { 0 };
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
