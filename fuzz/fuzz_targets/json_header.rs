//! A JSON header.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| raft_namesrv::checks::header(raft_namesrv::wire::Serialization::Json, bytes));
