//! The marker beside a log.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| storage::checks::marker(bytes));
