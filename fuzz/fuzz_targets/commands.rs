//! The commands of an entry.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| storage::checks::commands(bytes));
