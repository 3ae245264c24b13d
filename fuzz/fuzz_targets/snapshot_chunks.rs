//! The chunks of a snapshot.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| storage::checks::snapshot(bytes));
