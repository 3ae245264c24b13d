//! What is written follows from its name, so that a checker needs no copy.

use bytes::Bytes;
use storage::LogId;
use storage::log::{Entry, Payload};
use storage::snapshots::{CHUNK_BYTES_MAX, SnapshotMeta};
use storage::split_mix::SplitMix;

/// So many bytes: some that are random, and these over and over, for a test must not spend its time here.
fn bytes(random: &mut SplitMix, count: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(count + 8);
    while bytes.len() < count.min(256) {
        bytes.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    while bytes.len() < count {
        bytes.extend_from_within(..bytes.len().min(count - bytes.len()));
    }
    bytes.truncate(count);
    bytes.into()
}

/// A generator for a thing with a name.
fn named(kind: u64, id: LogId, number: u64) -> SplitMix {
    let mut mix =
        SplitMix::new(kind ^ id.term.rotate_left(17) ^ id.index.rotate_left(34) ^ number.rotate_left(51));
    mix.next_u64();
    mix
}

/// The entry with a log id.
pub fn entry(id: LogId) -> Entry {
    let mut mix = named(4, id, 0);
    let kind = mix.below(20);
    let most = match mix.below(100) {
        0..70 => 500,
        70..95 => 20_000,
        95..99 => 200_000,
        _ => 2_000_000,
    };
    let count = usize::try_from(mix.below(most)).unwrap_or(0);
    let payload = match kind {
        0 => Payload::Blank,
        1 => Payload::Membership(bytes(&mut mix, count.min(1_000))),
        _ => Payload::Commands(bytes(&mut mix, count)),
    };
    Entry { id, payload }
}

/// Describes the snapshot at a log id.
pub fn snapshot_meta(last: LogId) -> SnapshotMeta {
    let mut mix = named(1, last, 0);
    SnapshotMeta {
        last,
        membership: bytes(&mut mix, 40),
        state_hash: u128::from(mix.next_u64()) << 64 | u128::from(mix.next_u64()),
        unix_ms: mix.below(1 << 40),
    }
}

/// Number of chunks of the snapshot at a log id.
pub fn snapshot_chunks(last: LogId) -> u32 {
    let mut mix = named(2, last, 0);
    // Now and then more than one of sled's segments.
    let most = if mix.below(10) == 0 { 300 } else { 20 };
    u32::try_from(mix.below(most)).unwrap_or(0)
}

/// A chunk of it.
pub fn snapshot_chunk(last: LogId, number: u32) -> Bytes {
    let mut mix = named(3, last, u64::from(number));
    let bytes = match mix.below(3) {
        0 => CHUNK_BYTES_MAX,
        1 => usize::try_from(mix.below(CHUNK_BYTES_MAX as u64)).unwrap_or(0),
        _ => usize::try_from(mix.below(300)).unwrap_or(0),
    };
    self::bytes(&mut mix, bytes)
}
