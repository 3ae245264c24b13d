use super::*;
use crate::checks::edits::{edited, edits};
use crate::checks::seeds;
use proptest::prelude::*;

/// The segments of a real log, in order.
fn segments() -> Vec<u8> {
    let files = some_log();
    (1..9).filter_map(|number| files.bytes(&segment_path(number))).collect::<Vec<_>>().concat()
}

fn first_segment() -> Vec<u8> {
    some_log().bytes(&segment_path(1)).unwrap()
}

#[test]
fn what_is_checked_is_a_log() {
    let files = some_log();
    let opened = open(&files).unwrap();
    assert!(opened.log.state().last.is_some_and(|last| last.index > 3), "{:?}", opened.log);
    assert!(files.bytes(&segment_path(2)).is_some());
    // Sealing changes nothing of what is right already.
    let mut sealed = first_segment();
    seal_segment(&mut sealed, 1);
    assert_eq!(sealed, first_segment());
}

#[test]
fn seeds_pass() {
    let seeds = |how: u8, bytes: Vec<u8>| [&[how], &*bytes].concat();
    let logs: Vec<_> = [0, SEAL, SYNCED].map(|how| seeds(how, first_segment())).into();
    let logs = [logs, [SEGMENTS, SEGMENTS | SEAL].map(|how| seeds(how, segments())).into()].concat();
    let bytes = some_log().bytes(&Path::new(DATA).join(MARKER_FILE)).unwrap();
    let markers = vec![seeds(0, bytes.clone()), seeds(SEAL, bytes[12..bytes.len() - 8].to_vec())];
    for (target, seeds, check) in [("log_segments", logs, log as fn(&[u8])), ("log_marker", markers, marker)]
    {
        seeds.iter().for_each(|seed| check(seed));
        seeds::keep(target, &seeds).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes_as_segments(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        log(&bytes);
    }

    #[test]
    fn segments_with_changes(how in 0..16_u8, edits in edits()) {
        log(&[&[how & !SEGMENTS], &*edited(&first_segment(), &edits)].concat());
        log(&[&[how], &*edited(&segments(), &edits)].concat());
    }

    #[test]
    fn any_bytes_as_a_marker(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        marker(&bytes);
    }

    #[test]
    fn markers_with_changes(edits in edits()) {
        let bytes = some_log().bytes(&Path::new(DATA).join(MARKER_FILE)).unwrap();
        marker(&[&[0], &*edited(&bytes, &edits)].concat());
        marker(&[&[SEAL], &*edited(&bytes[12..bytes.len() - 8], &edits)].concat());
    }
}
