//! A properties text.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| raft_namesrv::checks::properties_text(bytes));
