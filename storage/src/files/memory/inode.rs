//! The bytes of one file: those that a process sees, and those that survive a power cut.

use crate::split_mix::SplitMix;

/// A write survives a power cut in units of this size.
const SECTOR_BYTES: usize = 512;

/// The bytes of one file.
#[derive(Default)]
pub(super) struct Inode {
    /// As a process sees them.
    pub(super) bytes: Vec<u8>,
    /// Those that survive.
    pub(super) durable: Vec<u8>,
    /// Changes that are not synced, in order.
    pub(super) pending: Vec<DataChange>,
}

/// A change of bytes that is not synced.
pub(super) enum DataChange {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl Inode {
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        put_bytes(&mut self.bytes, offset, bytes);
        self.pending.push(DataChange::Write(offset, bytes.to_vec()));
    }

    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            match change {
                DataChange::Write(offset, bytes) => put_bytes(&mut self.durable, offset, &bytes),
                DataChange::Length(length) => self.durable.resize(length, 0),
            }
        }
    }

    /// Each sector of each write that was not synced survives or not, whatever the order.
    pub(super) fn power_cut(&mut self, random: &mut SplitMix) {
        let whole = coin(random);
        for change in self.pending.drain(..) {
            match change {
                DataChange::Length(length) if coin(random) => self.durable.resize(length, 0),
                DataChange::Length(_) => {}
                DataChange::Write(offset, bytes) => {
                    for (number, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                        if whole || coin(random) {
                            put_bytes(&mut self.durable, offset + number * SECTOR_BYTES, sector);
                        }
                    }
                }
            }
        }
        self.bytes.clone_from(&self.durable);
    }
}

fn put_bytes(target: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if target.len() < offset + bytes.len() {
        target.resize(offset + bytes.len(), 0);
    }
    target[offset..offset + bytes.len()].copy_from_slice(bytes);
}

/// True or false, with equal chances.
pub(super) fn coin(random: &mut SplitMix) -> bool {
    random.next_u64() & 1 == 1
}
