//! What must hold for any bytes that a client can send. The fuzz targets and the property tests run the same functions;
//! no other build has them.

#![allow(clippy::unwrap_used, reason = "a check fails by panicking")]

#[cfg(test)]
mod tests;

use crate::protocol::registration::{
    FILTER_SERVERS_MAX, RegistrationHeader, RegistrationLimits, parse_registration,
};
use crate::protocol::{ReadOptions, Request, properties};
use crate::wire::{self, Decoder, RemotingCommand, Serialization, WireError};
use bytes::BytesMut;

/// The commands of a connection, and the error that ended it.
type Decoded = (Vec<RemotingCommand>, Option<WireError>);

fn decode_in(chunks: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Decoded {
    let (mut decoder, mut buffer, mut commands) =
        (Decoder::new(wire::FRAME_MAX_BYTES), BytesMut::new(), Vec::new());
    for chunk in chunks {
        buffer.extend_from_slice(chunk.as_ref());
        loop {
            let room = buffer.capacity();
            match decoder.next(&mut buffer) {
                Ok(Some(command)) => commands.push(command),
                Ok(None) => break,
                Err(error) => return (commands, Some(error)),
            }
            assert!(buffer.capacity() <= room, "the decoder made room for bytes that have not come");
        }
    }
    (commands, None)
}

/// A connection's bytes mean the same wherever they are cut.
pub fn frames(bytes: &[u8]) {
    let whole = decode_in([bytes]);
    assert_eq!(decode_in(bytes.chunks(1)), whole);
    assert_eq!(decode_in(bytes.chunks(13)), whole);
    if let Some(&first) = bytes.first() {
        let (left, right) = bytes.split_at(usize::from(first).min(bytes.len()));
        assert_eq!(decode_in([left, right]), whole);
    }
    for command in &whole.0 {
        parse_all(command);
    }
}

/// A header that was read and is written again reads the same.
pub fn header(serialization: Serialization, bytes: &[u8]) {
    let mut frame = BytesMut::new();
    frame.extend_from_slice(&u32::try_from(bytes.len() + 4).unwrap().to_be_bytes());
    frame.extend_from_slice(
        &(u32::from(serialization.byte()) << 24 | u32::try_from(bytes.len()).unwrap()).to_be_bytes(),
    );
    frame.extend_from_slice(bytes);
    let Ok(Some(command)) = Decoder::for_client().next(&mut frame) else { return };
    parse_all(&command);
    let mut written = BytesMut::new();
    wire::encode(&command.head(), &command.body, serialization, &mut written);
    let again = Decoder::for_client().next(&mut written).unwrap().unwrap();
    assert_eq!((again.code, again.opaque, again.flag), (command.code, command.opaque, command.flag));
    // An empty remark of a binary header reads as null; a language without a name is written as OTHER.
    assert_eq!(again.remark, command.remark);
    assert_eq!(again.language.name(), command.language.name());
    for (key, value) in command.ext.iter().flat_map(|ext| ext.iter()) {
        if value.is_some() {
            let last = command.field(key).or(again.field(key));
            assert_eq!(again.field(key), last, "{key:?}");
        }
    }
}

/// A registration is refused, or sound and no larger than what was sent.
pub fn registration(bytes: &[u8]) {
    for (version, compressed) in [(35, "false"), (399, "true"), (479, "false"), (479, "true")] {
        let mut command = RemotingCommand::request(103, 1)
            .with("clusterName", "c")
            .with("brokerName", "b")
            .with("brokerAddr", "a")
            .with("brokerId", "0")
            .with("compressed", compressed)
            .with_body(bytes.to_vec());
        command.version = version;
        let digest = |command| RegistrationHeader::parse(command).body_digest(&command.body);
        assert_eq!(digest(&command), digest(&command.clone()));
        let Ok(parsed) = parse_registration(&command) else { continue };
        assert!(parsed.topics.is_sorted_by(|a, b| a.topic < b.topic));
        assert!(parsed.static_infos.is_sorted_by(|a, b| a.0 < b.0));
        let topics_max = RegistrationLimits::default().topics;
        assert!(parsed.topics.len() <= topics_max && parsed.static_infos.len() <= topics_max);
        assert!(parsed.filter_servers.as_ref().is_none_or(|servers| servers.len() <= FILTER_SERVERS_MAX));
        if compressed == "false" {
            // A broken byte is replaced by three.
            let names: usize = parsed.topics.iter().map(|topic| topic.topic.len()).sum();
            assert!(names <= 3 * bytes.len());
        }
    }
}

/// A properties text is refused, or gives keys in order and no more text than there was.
pub fn properties_text(bytes: &[u8]) {
    let Ok(entries) = properties::parse(bytes) else { return };
    assert!(entries.is_sorted_by(|a, b| a.0 < b.0));
    let text: usize = entries.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert!(text <= 3 * bytes.len());
    properties::write(entries.iter().map(|(key, value)| (&**key, &**value)));
}

/// All that the edge reads of a command.
fn parse_all(command: &RemotingCommand) {
    let _ = Request::parse(command);
    let _ = ReadOptions::of(command);
    let _ = RegistrationHeader::parse(command).check_crc(&command.body);
    if command.code == 103 {
        let _ = parse_registration(command);
    }
}
