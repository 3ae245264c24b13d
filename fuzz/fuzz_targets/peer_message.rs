//! A message between nodes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| raft::checks::peer_message(bytes));
