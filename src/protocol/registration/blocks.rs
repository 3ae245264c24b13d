//! Block digests of a topic table, so that the next table of the same broker is read only where it differs.
//!
//! A broker with thousands of topics sends all of them whenever one has changed. Reading a topic costs twenty times
//! what hashing its bytes costs, so a node remembers a digest per block of some topics, and skips the blocks that it
//! knows.

use storage::command::Name;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Topics of a block.
const BLOCK_TOPICS: usize = 16;
/// A run of so many topics stays one block: a block that gained a few is not split.
const BLOCK_TOPICS_MAX: usize = 24;
/// Known blocks that may be missing in a row before the whole rest is read.
const MISSING_MAX: usize = 4;

/// The block digests of a table. A few bytes per topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blocks {
    blocks: Vec<Block>,
    /// A short hash of each topic's name, in the order of the table.
    names: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    digest: [u64; 2],
    bytes: u32,
    /// Where its topics begin in `names`.
    first: u32,
}

impl Blocks {
    /// Number of topics in the table; a name that stands in it twice counts twice.
    #[must_use]
    pub fn topics(&self) -> usize {
        self.names.len()
    }

    fn names_of(&self, block: usize) -> &[u32] {
        let begin = |block: usize| self.blocks.get(block).map_or(self.names.len(), |b| b.first as usize);
        self.names.get(begin(block)..begin(block + 1)).unwrap_or_default()
    }

    /// If `text` begins with the block: its length, bytes.
    fn matches(&self, text: &[u8], block: usize) -> Option<usize> {
        let Block { digest: expected, bytes, .. } = *self.blocks.get(block)?;
        let bytes = bytes as usize;
        (digest(text.get(..bytes)?) == expected).then_some(bytes)
    }
}

/// Walks over one table: skips known blocks, and computes the blocks of the whole table.
#[derive(Debug, Default)]
pub(super) struct BlockWalk<'a> {
    known: Option<&'a Blocks>,
    /// The known block that should come next.
    next: usize,
    made: Blocks,
    /// Topics that were read and are in no block yet.
    run: Vec<Topic<'a>>,
    skipped: SkippedTopics,
}

#[derive(Debug)]
struct Topic<'a> {
    name: u32,
    /// The table from this topic on.
    text: &'a [u8],
    bytes: usize,
}

/// The topics that were skipped, as ranges of a table's names.
#[derive(Debug, Default)]
pub(super) struct SkippedTopics {
    ranges: Vec<std::ops::Range<usize>>,
    pub(super) topics: usize,
}

impl<'a> BlockWalk<'a> {
    pub(super) fn new(known: Option<&'a Blocks>) -> Self {
        Self { known, ..Self::default() }
    }

    /// Called before a topic, with the table from there on: the number of bytes that are known and can be skipped.
    pub(super) fn skip(&mut self, text: &'a [u8]) -> Option<usize> {
        // Behind a topic that had to be read, only the name of the next topic shows which known block follows.
        if !self.run.is_empty() {
            return None;
        }
        let bytes = self.known?.matches(text, self.next)?;
        self.take(self.next, bytes);
        Some(bytes)
    }

    /// Called after a topic was read from the first `bytes` of `text`. If the topic begins a known block, the result is
    /// the number of bytes to skip from `text` on, and the topic does not count as read.
    pub(super) fn read(&mut self, name: &Name, text: &'a [u8], bytes: usize) -> Option<usize> {
        let name = name_digest(name);
        if let Some((block, bytes)) = self.find(name, text) {
            self.close_run();
            self.take(block, bytes);
            return Some(bytes);
        }
        self.run.push(Topic { name, text, bytes });
        None
    }

    fn find(&self, name: u32, text: &[u8]) -> Option<(usize, usize)> {
        let known = self.known?;
        (self.next..=self.next + MISSING_MAX)
            .filter(|block| known.names_of(*block).first() == Some(&name))
            .find_map(|block| Some((block, known.matches(text, block)?)))
    }

    /// Adds a known block to the table, and its topics to the skipped ones.
    fn take(&mut self, block: usize, bytes: usize) {
        let Some(known) = self.known else { return };
        let Some(Block { digest, .. }) = known.blocks.get(block) else { return };
        let begin = self.made.names.len();
        self.made.names.extend_from_slice(known.names_of(block));
        self.add(*digest, bytes, begin);
        let end = self.made.names.len();
        self.skipped.topics += end - begin;
        match self.skipped.ranges.last_mut() {
            Some(last) if last.end == begin => last.end = end,
            _ => self.skipped.ranges.push(begin..end),
        }
        self.next = block + 1;
    }

    fn add(&mut self, digest: [u64; 2], bytes: usize, first: usize) {
        // A frame is far smaller than 4 GiB.
        let (bytes, first) =
            (u32::try_from(bytes).unwrap_or(u32::MAX), u32::try_from(first).unwrap_or(u32::MAX));
        self.made.blocks.push(Block { digest, bytes, first });
    }

    /// Turns the topics that were read into blocks.
    fn close_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        let size = if run.len() <= BLOCK_TOPICS_MAX { BLOCK_TOPICS_MAX } else { BLOCK_TOPICS };
        for topics in run.chunks(size) {
            let (Some(first), Some(last)) = (topics.first(), topics.last()) else { continue };
            // Both texts reach to the end of the same table.
            let bytes = first.text.len() - last.text.len() + last.bytes;
            let begin = self.made.names.len();
            self.made.names.extend(topics.iter().map(|topic| topic.name));
            self.add(digest(first.text.get(..bytes).unwrap_or_default()), bytes, begin);
        }
    }

    /// Number of topics so far.
    pub(super) fn topics(&self) -> usize {
        self.made.names.len() + self.run.len()
    }

    /// The blocks of the whole table, and the topics that were skipped.
    pub(super) fn end(mut self) -> (Blocks, SkippedTopics) {
        self.close_run();
        (self.made, self.skipped)
    }
}

impl SkippedTopics {
    /// Whether one of these names may be among the skipped ones; never false for a name that was skipped.
    pub(super) fn may_contain<'n>(&self, blocks: &Blocks, names: impl Iterator<Item = &'n Name>) -> bool {
        // One bit per name rules nearly all other names out without a search.
        let mut bits = [0u64; 64];
        let mut wanted: Vec<u32> = names.map(name_digest).collect();
        wanted.sort_unstable();
        for name in &wanted {
            let (index, bit) = place(*name);
            if let Some(bits) = bits.get_mut(index) {
                *bits |= bit;
            }
        }
        let mut skipped =
            self.ranges.iter().flat_map(|range| blocks.names.get(range.clone()).unwrap_or_default());
        skipped.any(|name| {
            let (index, bit) = place(*name);
            bits.get(index).is_some_and(|bits| bits & bit != 0) && wanted.binary_search(name).is_ok()
        })
    }
}

fn place(name: u32) -> (usize, u64) {
    ((name as usize >> 6) & 63, 1 << (name & 63))
}

#[allow(clippy::cast_possible_truncation)]
fn name_digest(name: &Name) -> u32 {
    xxh3_64(name.as_bytes()) as u32
}

#[allow(clippy::cast_possible_truncation)]
fn digest(text: &[u8]) -> [u64; 2] {
    let hash = xxh3_128(text);
    [hash as u64, (hash >> 64) as u64]
}
