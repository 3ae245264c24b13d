//! A topic table's bytes in blocks, so that the next table of the same broker is read only where it differs.
//!
//! A broker with thousands of topics tells all of them whenever one has changed. Reading a topic costs twenty times what
//! hashing its bytes costs, so a node remembers a hash per block of some topics, and passes over the blocks that it knows.

use storage::command::Name;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Topics of a block.
const BLOCK_TOPICS: usize = 16;
/// So many are one block too: what is left of one that gained a few.
const BLOCK_TOPICS_MAX: usize = 24;
/// Blocks that may be missing in a row before all the rest is read.
const MISSING_MAX: usize = 4;

/// What a table's bytes were, block by block. A few bytes per topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blocks {
    blocks: Vec<Block>,
    /// A short hash of each topic's name, in the order of the table.
    names: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    hash: [u64; 2],
    bytes: u32,
    /// Where its topics begin in `names`.
    first: u32,
}

impl Blocks {
    /// Topics in the table, a name that stands in it twice counted twice.
    #[must_use]
    pub fn topics(&self) -> usize {
        self.names.len()
    }

    fn names_of(&self, block: usize) -> &[u32] {
        let begin = |block: usize| self.blocks.get(block).map_or(self.names.len(), |b| b.first as usize);
        self.names.get(begin(block)..begin(block + 1)).unwrap_or_default()
    }

    /// Whether `text` begins with a block.
    fn starts(&self, text: &[u8], block: usize) -> Option<usize> {
        let Block { hash: expected, bytes, .. } = *self.blocks.get(block)?;
        let bytes = bytes as usize;
        (hash(text.get(..bytes)?) == expected).then_some(bytes)
    }
}

/// Reads one table: passes over what is known, and makes the blocks of the whole.
#[derive(Debug, Default)]
pub(super) struct Walk<'a> {
    known: Option<&'a Blocks>,
    /// The known block that should come next.
    next: usize,
    made: Blocks,
    /// Topics that were read and are in no block yet.
    run: Vec<Topic<'a>>,
    passed: Passed,
}

#[derive(Debug)]
struct Topic<'a> {
    name: u32,
    /// The table from this topic on.
    text: &'a [u8],
    bytes: usize,
}

/// Names of the topics that were passed over, as ranges of a table's names.
#[derive(Debug, Default)]
pub(super) struct Passed {
    ranges: Vec<std::ops::Range<usize>>,
    pub(super) topics: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(known: Option<&'a Blocks>) -> Self {
        Self { known, ..Self::default() }
    }

    /// Before a topic, with the table from there on: how many bytes are known and can be passed over.
    pub(super) fn pass(&mut self, text: &'a [u8]) -> Option<usize> {
        // Behind a topic that had to be read only the name of the next one tells where the known goes on.
        if !self.run.is_empty() {
            return None;
        }
        let bytes = self.known?.starts(text, self.next)?;
        self.take(self.next, bytes);
        Some(bytes)
    }

    /// A topic was read, from `text` on as many bytes. Perhaps it begins a block that is known: then the number of bytes
    /// to pass over from `text` on, and the topic does not count as read.
    pub(super) fn read(&mut self, name: &Name, text: &'a [u8], bytes: usize) -> Option<usize> {
        let name = short(name);
        if let Some((block, bytes)) = self.found(name, text) {
            self.close_run();
            self.take(block, bytes);
            return Some(bytes);
        }
        self.run.push(Topic { name, text, bytes });
        None
    }

    fn found(&self, name: u32, text: &[u8]) -> Option<(usize, usize)> {
        let known = self.known?;
        (self.next..=self.next + MISSING_MAX)
            .filter(|block| known.names_of(*block).first() == Some(&name))
            .find_map(|block| Some((block, known.starts(text, block)?)))
    }

    /// Takes a known block over.
    fn take(&mut self, block: usize, bytes: usize) {
        let Some(known) = self.known else { return };
        let Some(Block { hash, .. }) = known.blocks.get(block) else { return };
        let begin = self.made.names.len();
        self.made.names.extend_from_slice(known.names_of(block));
        self.add(*hash, bytes, begin);
        let end = self.made.names.len();
        self.passed.topics += end - begin;
        match self.passed.ranges.last_mut() {
            Some(last) if last.end == begin => last.end = end,
            _ => self.passed.ranges.push(begin..end),
        }
        self.next = block + 1;
    }

    fn add(&mut self, hash: [u64; 2], bytes: usize, first: usize) {
        // A frame is far smaller than 4 GiB.
        let (bytes, first) =
            (u32::try_from(bytes).unwrap_or(u32::MAX), u32::try_from(first).unwrap_or(u32::MAX));
        self.made.blocks.push(Block { hash, bytes, first });
    }

    /// Makes blocks of what was read.
    fn close_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        let size = if run.len() <= BLOCK_TOPICS_MAX { BLOCK_TOPICS_MAX } else { BLOCK_TOPICS };
        for topics in run.chunks(size) {
            let (Some(first), Some(last)) = (topics.first(), topics.last()) else { continue };
            // Both begin somewhere in the same text and reach to its end.
            let bytes = first.text.len() - last.text.len() + last.bytes;
            let begin = self.made.names.len();
            self.made.names.extend(topics.iter().map(|topic| topic.name));
            self.add(hash(first.text.get(..bytes).unwrap_or_default()), bytes, begin);
        }
    }

    /// Topics so far.
    pub(super) fn topics(&self) -> usize {
        self.made.names.len() + self.run.len()
    }

    /// The blocks of the whole table, and which of its topics were passed over.
    pub(super) fn end(mut self) -> (Blocks, Passed) {
        self.close_run();
        (self.made, self.passed)
    }
}

impl Passed {
    /// Whether one of these names may be among those passed over (never wrong about one that is).
    pub(super) fn may_hold<'n>(&self, blocks: &Blocks, names: impl Iterator<Item = &'n Name>) -> bool {
        // One bit per name tells nearly all of the others apart at once.
        let mut bits = [0u64; 64];
        let mut wanted: Vec<u32> = names.map(short).collect();
        wanted.sort_unstable();
        for name in &wanted {
            let (word, bit) = place(*name);
            if let Some(bits) = bits.get_mut(word) {
                *bits |= bit;
            }
        }
        let mut passed =
            self.ranges.iter().flat_map(|range| blocks.names.get(range.clone()).unwrap_or_default());
        passed.any(|name| {
            let (word, bit) = place(*name);
            bits.get(word).is_some_and(|bits| bits & bit != 0) && wanted.binary_search(name).is_ok()
        })
    }
}

fn place(name: u32) -> (usize, u64) {
    ((name as usize >> 6) & 63, 1 << (name & 63))
}

#[allow(clippy::cast_possible_truncation)]
fn short(name: &Name) -> u32 {
    xxh3_64(name.as_bytes()) as u32
}

#[allow(clippy::cast_possible_truncation)]
fn hash(text: &[u8]) -> [u64; 2] {
    let hash = xxh3_128(text);
    [hash as u64, (hash >> 64) as u64]
}
