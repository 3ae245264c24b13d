//! A handshake between nodes: of strangers, and of nodes that know the secret.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| raft::checks::peer_handshake(bytes));
