//! Changes of bytes that were once right: flipped bits, cuts, and pieces of them in other places.

use proptest::prelude::*;
use proptest::sample::Index;

/// One change.
#[derive(Debug, Clone)]
pub enum Edit {
    /// Flips one bit (0 to 7) of the byte there.
    Flip(Index, u8),
    /// Overwrites the byte there.
    Put(Index, u8),
    /// Ends the bytes there.
    Cut(Index),
    /// Removes that many bytes from there on.
    Remove(Index, usize),
    /// A copy of the bytes from the first place, that many, put in at the second.
    Splice(Index, usize, Index),
}

/// Up to three changes.
pub fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let at = any::<Index>;
    let interesting = prop::sample::select(vec![0_u8, 1, 2, 8, 250, 251, 252, 253, 254, 255]);
    let edit = prop_oneof![
        3 => (at(), 0..8_u8).prop_map(|(at, bit)| Edit::Flip(at, bit)),
        3 => (at(), interesting).prop_map(|(at, byte)| Edit::Put(at, byte)),
        1 => at().prop_map(Edit::Cut),
        1 => (at(), 1..80_usize).prop_map(|(at, count)| Edit::Remove(at, count)),
        1 => (at(), 1..200_usize, at()).prop_map(|(from, count, to)| Edit::Splice(from, count, to)),
    ];
    prop::collection::vec(edit, 0..4)
}

/// Carries them out.
pub fn edited(bytes: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for edit in edits {
        if bytes.is_empty() {
            break;
        }
        let length = bytes.len();
        match edit {
            Edit::Flip(at, bit) => bytes[at.index(length)] ^= 1 << bit,
            Edit::Put(at, byte) => bytes[at.index(length)] = *byte,
            Edit::Cut(at) => bytes.truncate(at.index(length)),
            Edit::Remove(at, count) => {
                let from = at.index(length);
                bytes.drain(from..length.min(from + count));
            }
            Edit::Splice(from, count, to) => {
                let (from, to) = (from.index(length), to.index(length));
                let piece = bytes[from..length.min(from + count)].to_vec();
                bytes.splice(to..to, piece);
            }
        }
    }
    bytes
}
