use super::*;
use proptest::prelude::*;

fn records() -> impl Strategy<Value = Record> {
    let id = || any::<(u64, u64)>().prop_map(|(term, index)| LogId { term, index });
    let vote =
        || any::<(u64, u64, bool)>().prop_map(|(term, node, committed)| Vote { term, node, committed });
    let bytes = || prop::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from);
    let payload = prop_oneof![
        Just(Payload::Blank),
        bytes().prop_map(Payload::Commands),
        bytes().prop_map(Payload::Membership),
    ];
    let optional = || prop::option::of(id());
    let checkpoint = (prop::option::of(vote()), optional(), optional(), optional());
    prop_oneof![
        (id(), payload).prop_map(|(id, payload)| Record::Entry(Entry { id, payload })),
        vote().prop_map(Record::Vote),
        optional().prop_map(Record::Truncate),
        id().prop_map(Record::Purge),
        optional().prop_map(Record::Committed),
        checkpoint.prop_map(|(vote, purged, committed, last)| {
            Record::Checkpoint(Checkpoint { vote, purged, committed, last })
        }),
        Just(Record::Synced),
        Just(Record::End),
    ]
}

fn encode(record: &Record) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.encode(42, 640, LogPlace { segment: 3, offset: 64 }, &mut bytes);
    bytes
}

proptest! {
    #[test]
    fn a_record_reads_as_it_was_written_and_only_at_its_place(record in records()) {
        let mut bytes = encode(&record);
        prop_assert_eq!(bytes.len(), record.length());
        bytes.extend_from_slice(&[9; 30]);
        let decoded = Record::decode(&bytes, 42, 640).unwrap();
        prop_assert_eq!(decoded.length, record.length());
        prop_assert_eq!(decoded.synced, LogPlace { segment: 3, offset: 64 });
        prop_assert_eq!(decoded.record, record);
        prop_assert_eq!(Record::decode(&bytes, 42, 648), Err(RecordError::HeaderChecksum));
        prop_assert_eq!(Record::decode(&bytes, 43, 640), Err(RecordError::HeaderChecksum));
    }

    #[test]
    fn one_changed_byte_or_a_missing_one_is_noticed(record in records(), at: prop::sample::Index, bit in 0..8_u32) {
        let bytes = encode(&record);
        let at = at.index(bytes.len());
        let mut changed = bytes.clone();
        changed[at] ^= 1_u8 << bit;
        prop_assert!(Record::decode(&changed, 42, 640).is_err());
        prop_assert!(Record::decode(&bytes[..at], 42, 640).is_err());
    }

    #[test]
    fn any_bytes_are_no_reason_to_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300), seal: bool) {
        if seal && bytes.len() >= HEADER_BYTES {
            // A header of anything, with the right checksum.
            bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
            let checksum = xxh3_64_with_seed(&bytes[..56], seed(42, 640));
            bytes[56..64].copy_from_slice(&checksum.to_le_bytes());
        }
        let _ = Record::decode(&bytes, 42, 640);
    }
}

#[test]
fn a_length_that_is_only_claimed_takes_no_memory() {
    for payload_length in [u64::MAX, 1 << 40, 1 << 30, 100] {
        let header = Header {
            kind: 1,
            variant: 1,
            payload_length,
            synced: LogPlace::default(),
            term: 1,
            index: 1,
            payload_checksum: 0,
        };
        let error = Record::decode(&header.encode(seed(42, 640)), 42, 640).unwrap_err();
        assert!(matches!(error, RecordError::Form | RecordError::Short), "{error}");
    }
}

/// Format 1. Other bytes here mean that logs of before are no longer read: raise `LOG_FORMAT` instead.
#[test]
fn golden_bytes() {
    let entry =
        Entry { id: LogId { term: 2, index: 3 }, payload: Payload::Commands(Bytes::from_static(b"abc")) };
    let bytes = encode(&Record::Entry(entry));
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, GOLDEN_ENTRY);
}

const GOLDEN_ENTRY: &str = concat!(
    "726e5231010100000300000000000000",
    "03000000000000004000000000000000",
    "02000000000000000300000000000000",
    "acf312e4365a552700f11916d5b2a182",
    "6162630000000000",
);
