use super::*;
use crate::wire::{FRAME_MAX_BYTES, encode};

fn frame(length: u32, mark: u32, rest: &[u8]) -> BytesMut {
    let mut bytes = BytesMut::from(&length.to_be_bytes()[..]);
    bytes.extend_from_slice(&mark.to_be_bytes());
    bytes.extend_from_slice(rest);
    bytes
}

fn json(text: &str) -> BytesMut {
    let length = u32::try_from(text.len()).unwrap();
    frame(4 + length, length, text.as_bytes())
}

fn decode(mut bytes: BytesMut) -> Result<Option<RemotingCommand>, WireError> {
    Decoder::new(FRAME_MAX_BYTES).next(&mut bytes)
}

const REQUEST: &str = r#"{"code":105,"opaque":3,"extFields":{"topic":"t"}}"#;

#[test]
fn lengths_out_of_bounds_are_refused_as_soon_as_they_are_read() {
    let twelve = [b'{'; 12];
    for length in [0, 1, 3, 16_777_213, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF] {
        let refused = decode(frame(length, 0, &twelve));
        assert!(
            matches!(refused, Err(WireError::FrameLength { claimed, .. }) if claimed == length),
            "{length}: {refused:?}"
        );
    }
    // The largest frame: its length field counts too.
    assert_eq!(decode(frame(16_777_212, 8, &twelve)), Ok(None));
    assert_eq!(
        decode(frame(4, 0, &twelve)),
        Err(WireError::Header { serialization: Serialization::Json, reason: "a value is missing" })
    );
}

#[test]
fn a_header_longer_than_its_frame_is_refused_before_the_frame_is_there() {
    for claimed in [97, 4096, 0x00FF_FFFF] {
        let refused = decode(frame(100, claimed, &[b'{'; 12]));
        assert_eq!(refused, Err(WireError::HeaderLength { claimed: claimed as usize, room: 96 }));
    }
}

#[test]
fn an_unknown_serialization_is_refused() {
    assert_eq!(decode(frame(27, 7 << 24 | 23, &[b' '; 23])), Err(WireError::Serialization(7)));
}

#[test]
fn broken_headers_are_refused() {
    for text in [
        "",
        "hello there",
        r#"{"code":"#,
        r#"{"code":1} x"#,
        "[]",
        "null",
        r#"{"code":"x"}"#,
        r#"{"code":99999999999}"#,
    ] {
        let padded = json(text);
        let refused = Decoder::for_client().next(&mut padded.clone());
        assert!(matches!(refused, Err(WireError::Header { .. })), "{text}: {refused:?}");
    }
    for header in
        [&b"\0\x65\0\x01=\0"[..], b"\0\x65\0\x01=\0\0\0\x01\0\0\0\0\xFF\xFF\xFF\xFF\0\0\0\0", &[0; 16]]
    {
        let length = u32::try_from(header.len()).unwrap();
        let refused = decode(frame(4 + length, 1 << 24 | length, header));
        assert!(
            matches!(
                refused,
                Err(WireError::Header { serialization: Serialization::RocketMq, .. }) | Ok(None)
            ),
            "{refused:?}"
        );
    }
}

#[test]
fn nothing_is_looked_at_before_twelve_bytes() {
    let mut decoder = Decoder::new(FRAME_MAX_BYTES);
    let mut buffer = BytesMut::new();
    for byte in [0xFF; 11] {
        buffer.extend_from_slice(&[byte]);
        assert_eq!(decoder.next(&mut buffer), Ok(None));
    }
    buffer.extend_from_slice(&[0xFF]);
    assert!(decoder.next(&mut buffer).is_err());
}

#[test]
fn a_claimed_length_reserves_nothing() {
    let mut decoder = Decoder::new(FRAME_MAX_BYTES);
    let mut buffer = frame(16_777_212, 16_000_000, REQUEST.as_bytes());
    let before = buffer.capacity();
    assert_eq!(decoder.next(&mut buffer), Ok(None));
    assert_eq!(buffer.capacity(), before);
}

#[test]
fn tls_has_an_error_of_its_own() {
    let mut hello = BytesMut::from(&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00"[..]);
    assert_eq!(Decoder::new(FRAME_MAX_BYTES).next(&mut hello), Err(WireError::Tls));
}

#[test]
fn a_proxy_header_comes_once_and_names_the_peer() {
    let line = b"PROXY TCP4 10.1.2.3 10.4.5.6 1111 9876\r\n";
    let mut decoder = Decoder::new(FRAME_MAX_BYTES);
    let mut buffer = BytesMut::from(&line[..]);
    assert_eq!(decoder.next(&mut buffer), Ok(None));
    assert_eq!(decoder.proxied(), Some("10.1.2.3:1111".parse().unwrap()));
    buffer.extend_from_slice(&json(REQUEST));
    assert_eq!(decoder.next(&mut buffer).unwrap().unwrap().opaque, 3);
    // A second one is no frame.
    buffer.extend_from_slice(line);
    assert!(decoder.next(&mut buffer).is_err());
}

#[test]
fn tls_behind_a_proxy_header_is_refused_too() {
    let mut buffer = BytesMut::from(&b"PROXY UNKNOWN\r\n\x16\x03\x01"[..]);
    assert_eq!(Decoder::new(FRAME_MAX_BYTES).next(&mut buffer), Err(WireError::Tls));
}

#[test]
fn frames_follow_each_other_and_bodies_are_the_rest() {
    let mut stream = BytesMut::new();
    for opaque in 0..3 {
        let command = RemotingCommand::request(101, opaque).with("key", "k").with_body(vec![
            b'x';
            opaque.unsigned_abs()
                as usize
        ]);
        for serialization in [Serialization::Json, Serialization::RocketMq] {
            encode(&command.head(), &command.body, serialization, &mut stream);
        }
    }
    let mut decoder = Decoder::new(FRAME_MAX_BYTES);
    for number in 0..6usize {
        let command = decoder.next(&mut stream).unwrap().unwrap();
        assert_eq!((command.opaque, command.body.len()), (i32::try_from(number / 2).unwrap(), number / 2));
        assert_eq!(command.serialization.byte() as usize, number % 2);
    }
    assert_eq!(decoder.next(&mut stream), Ok(None));
    assert!(stream.is_empty());
}
