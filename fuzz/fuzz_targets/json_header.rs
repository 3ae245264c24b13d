//! A JSON header.
#![no_main]

#[allow(dead_code, reason = "each target runs one of them")]
#[path = "../../tests/it/parsers/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::header(raft_namesrv::wire::Serialization::Json, bytes));
