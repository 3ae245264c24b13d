//! The files of a log.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| storage::checks::log(bytes));
