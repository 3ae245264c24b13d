//! The bytes of a connection.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| raft_namesrv::checks::frames(bytes));
