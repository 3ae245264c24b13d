//! The seal, pointer and chunks in a snapshot's directory.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| storage::checks::stored_records(bytes));
