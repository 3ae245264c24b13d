//! The body of a registration: plain, of an old broker, compressed.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| raft_namesrv::checks::registration(bytes));
