//! Any bytes as what lies beside and in a snapshot's database: the seal, the pointer, a chunk.

use super::record::{Pointer, decode_checked, decode_chunk, encode_checked};
use super::seal::Seal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Makes the checksum right.
const SEAL: u8 = 1;

/// The bytes as a seal, a pointer and a chunk: read as they were written, or refused.
pub fn stored_records(bytes: &[u8]) {
    let Some((&how, content)) = bytes.split_first() else { return };
    let mut content = content.to_vec();
    let _ = decode_chunk(u32::from(how), &content);
    if how & SEAL != 0 {
        content.extend_from_slice(&crc32fast::hash(&content).to_le_bytes());
    }
    check::<Seal>("seal", &content);
    check::<Pointer>("pointer", &content);
}

fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(what: &'static str, bytes: &[u8]) {
    if let Ok(value) = decode_checked::<T>(what, bytes) {
        let again = encode_checked(what, &value).and_then(|bytes| decode_checked::<T>(what, &bytes));
        assert_eq!(again, Ok(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::edits::{edited, edits};
    use crate::checks::seeds;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            stored_records(&bytes);
        }

        #[test]
        fn records_with_changes(record in prop::sample::select(records()), edits in edits()) {
            let changed = edited(&record, &edits);
            stored_records(&[&[0], &*changed].concat());
            let changed = edited(&record[..record.len() - 4], &edits);
            stored_records(&[&[SEAL], &*changed].concat());
        }
    }

    #[test]
    fn seeds_pass() {
        let seeds: Vec<Vec<u8>> =
            records().iter().map(|record| [&[SEAL], &record[..record.len() - 4]].concat()).collect();
        seeds.iter().for_each(|seed| stored_records(seed));
        seeds::keep("stored_records", &seeds).unwrap();
    }

    /// A seal, a pointer and a chunk.
    fn records() -> Vec<Vec<u8>> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("db"), b"abc").unwrap();
        let seal = encode_checked("seal", &Seal::of(directory.path()).unwrap()).unwrap();
        let meta = crate::snapshots::SnapshotMeta {
            last: crate::LogId { term: 2, index: 300 },
            membership: bytes::Bytes::from_static(b"members"),
            state_hash: 5,
            unix_ms: 7,
        };
        let pointer = Pointer { meta, chunks: 3, bytes: 1000, hash: 9 };
        let pointer = encode_checked("pointer", &pointer).unwrap();
        vec![seal, pointer, super::super::record::encode_chunk(1, b"chunk")]
    }
}
