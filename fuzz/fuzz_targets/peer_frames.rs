//! Bytes on a connection between nodes, after the handshake.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| raft::checks::peer_frames(bytes));
