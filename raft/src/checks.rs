//! Any bytes on a connection between nodes: refused, or read as they were written; no memory for a length without its
//! bytes, and the same meaning wherever the bytes are cut. The fuzz targets and the property tests run the same functions; no
//! other build has them.

use crate::consensus::{conversions, membership_codec};
use crate::peer::frame::{self, Frame};
use crate::peer::handshake;
use crate::peer::message::{self, Reply, Request};
use futures_util::FutureExt;
use std::io;
use storage::limits::PEER_FRAME_BYTES_MAX;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The bytes as what a peer sends after the handshake.
pub fn peer_frames(bytes: &[u8]) {
    let whole = read_frames(bytes);
    for at in [bytes.len() / 2, usize::from(bytes.first().copied().unwrap_or(0)).min(bytes.len())] {
        let (left, right) = bytes.split_at(at);
        assert_eq!(read_frames(left.chain(right)), whole);
    }
    for frame in &whole.0 {
        let mut written = Vec::new();
        assert!(frame.write_to(&mut written).is_ok());
        assert_eq!(written.get(4..).and_then(|bytes| Frame::parse(bytes).ok()).as_ref(), Some(frame));
        peer_message(&frame.body);
    }
}

/// The bytes as the body of a frame.
pub fn peer_message(bytes: &[u8]) {
    if let Ok(request) = message::decode_request(bytes) {
        let again = message::encode_request(&request).and_then(|bytes| message::decode_request(&bytes));
        assert_eq!(again.ok().as_ref(), Some(&request));
        match request {
            Request::Append(append) => {
                if let Ok(sent) = conversions::raft_append(append.clone()) {
                    let again = conversions::append(sent);
                    assert_eq!(again.map(|again| again.entries.len()).ok(), Some(append.entries.len()));
                }
            }
            Request::SnapshotBegin { meta, .. } => {
                let _ = membership_codec::decode_stored(&meta.membership);
            }
            _ => {}
        }
    }
    if let Ok(reply) = message::decode_reply(bytes) {
        let again = message::encode_reply(&reply).and_then(|bytes: Vec<u8>| message::decode_reply(&bytes));
        assert_eq!(again.ok(), Some::<Reply>(reply));
    }
}

/// The bytes as an unauthenticated peer's part of a handshake, at either end, and as the parts of a handshake with the
/// right proofs.
pub fn peer_handshake(bytes: &[u8]) {
    handshake::checks::unauthenticated(bytes);
    handshake::checks::parts(bytes);
}

/// The frames of a stream, and why it ended.
fn read_frames(mut stream: impl AsyncRead + Unpin) -> (Vec<Frame>, io::ErrorKind) {
    let mut frames = Vec::new();
    loop {
        // A stream in memory never waits.
        let Some(read) = frame::read(&mut stream, PEER_FRAME_BYTES_MAX, || ()).now_or_never() else {
            unreachable!("reading waits for more bytes than there are");
        };
        match read.and_then(|bytes| Frame::parse(&bytes)) {
            Ok(frame) => frames.push(frame),
            Err(e) => return (frames, e.kind()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use storage::checks::edits::{edited, edits};
    use storage::checks::seeds;

    /// The fuzz targets begin with messages that have others inside: these must be valid too.
    #[test]
    fn messages_inside_messages_are_valid() {
        let requests = message::samples();
        let requests = requests.iter().filter_map(|bytes| message::decode_request(bytes).ok());
        let (mut appends, mut snapshots) = (0, 0);
        for request in requests {
            match request {
                Request::Append(append) if !append.entries.is_empty() => {
                    conversions::raft_append(append).unwrap();
                    appends += 1;
                }
                Request::SnapshotBegin { meta, .. } => {
                    membership_codec::decode_stored(&meta.membership).unwrap();
                    snapshots += 1;
                }
                _ => {}
            }
        }
        assert!(appends > 0 && snapshots > 0);
    }

    #[test]
    fn seeds_pass() {
        let messages = message::samples();
        let frame = |body: &Vec<u8>| {
            let mut bytes = Vec::new();
            Frame { kind: frame::Kind::Request, number: 7, body: body.clone() }.write_to(&mut bytes).unwrap();
            bytes
        };
        let frames: Vec<Vec<u8>> = messages.iter().map(frame).collect();
        let parts = handshake::samples();
        for (target, seeds, check) in [
            ("peer_frames", frames, peer_frames as fn(&[u8])),
            ("peer_message", messages, peer_message),
            ("peer_handshake", parts, peer_handshake),
        ] {
            seeds.iter().for_each(|seed| check(seed));
            seeds::keep(target, &seeds).unwrap();
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            peer_frames(&bytes);
            peer_message(&bytes);
            peer_message(&[&[storage::format::FORMAT], &*bytes].concat());
            peer_handshake(&bytes);
        }

        #[test]
        fn messages_with_changes(message in prop::sample::select(message::samples()), edits in edits()) {
            let body = edited(&message, &edits);
            peer_message(&body);
            let mut bytes = Vec::new();
            for number in [1, 2] {
                Frame { kind: frame::Kind::Request, number, body: body.clone() }.write_to(&mut bytes).unwrap();
            }
            peer_frames(&edited(&bytes, &edits));
        }

        #[test]
        fn handshakes_with_changes(part in prop::sample::select(handshake::samples()), edits in edits()) {
            peer_handshake(&edited(&part, &edits));
        }
    }
}
