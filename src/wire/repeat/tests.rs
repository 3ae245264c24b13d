use super::*;
use crate::wire::{Decoder, ExtFields, FLAG_ONEWAY, FRAME_MAX_BYTES, Language, encode};
use bytes::{Bytes, BytesMut};

fn command(opaque: i32, address: &str) -> RemotingCommand {
    let fields = [("clusterName", Some("c")), ("brokerAddr", Some(address)), ("brokerName", Some("b"))];
    RemotingCommand {
        code: 904,
        language: Language::JAVA,
        version: 479,
        opaque,
        flag: FLAG_ONEWAY,
        remark: None,
        ext: Some(fields.into_iter().collect::<ExtFields>()),
        body: Bytes::new(),
        serialization: Serialization::Json,
    }
}

fn frame(command: &RemotingCommand, serialization: Serialization) -> BytesMut {
    let mut out = BytesMut::new();
    encode(&command.head(), &command.body, serialization, &mut out);
    out
}

fn read(frame: &[u8]) -> Option<RemotingCommand> {
    Decoder::new(FRAME_MAX_BYTES).next(&mut BytesMut::from(frame)).ok().flatten()
}

fn kept(frame: &[u8]) -> Option<Repeat> {
    Repeat::of(Repeat::front(frame)?, &read(frame)?)
}

fn json(text: &str) -> BytesMut {
    let length = u32::try_from(text.len()).unwrap();
    let mut bytes = BytesMut::from(&(4 + length).to_be_bytes()[..]);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

#[test]
fn the_same_but_for_the_opaque() {
    for serialization in [Serialization::Json, Serialization::RocketMq] {
        let first = frame(&command(1_234, "10.0.0.1:10911"), serialization);
        let repeat = kept(&first).unwrap();
        assert!(repeat.is_at_front(&first));
        let mut next = frame(&command(1_299, "10.0.0.1:10911"), serialization);
        assert_eq!(repeat.bytes(), next.len());
        next.extend_from_slice(b"what follows");
        assert!(repeat.is_at_front(&next));
        assert!(!repeat.is_at_front(&next[..repeat.bytes() - 1]), "not all of it is there");
        assert!(!repeat.is_at_front(&frame(&command(1_234, "10.0.0.2:10911"), serialization)));
    }
}

/// Whichever byte differs, a frame that is recognised decodes to the same command.
#[test]
fn a_recognised_frame_decodes_to_the_same_command() {
    let frames = [
        frame(&command(1_234, "10.0.0.1:10911"), Serialization::Json),
        frame(&command(1_234, "10.0.0.1:10911"), Serialization::RocketMq),
        json(
            r#"{"code": 904, "flag": 2, "opaque": 17, "extFields": {"clusterName": "c", "brokerAddr": "a"}}"#,
        ),
        json(r#"{"opaque":0}"#),
    ];
    for first in frames {
        let (repeat, original) = (kept(&first).unwrap(), read(&first).unwrap());
        let mut recognised = 0;
        for place in 0..first.len() {
            for byte in 0..=u8::MAX {
                let mut other = first.clone();
                other[place] = byte;
                if repeat.is_at_front(&other) {
                    recognised += usize::from(byte != first[place]);
                    let read = read(&other).unwrap();
                    assert_eq!(RemotingCommand { opaque: original.opaque, ..read }, original);
                }
            }
        }
        assert!(recognised > 0, "another opaque is the same");
    }
}

#[test]
fn not_kept_unless_it_is_certain_where_the_opaque_is() {
    for header in [
        r#"{"code":904,"flag":2}"#,
        r#"{"code":904,"opaque":-1}"#,
        r#"{"code":904,"opaque":"1"}"#,
        r#"{"code":904,"opaque":1234567890}"#,
        r#"{"code":904,"opaque":1,"extFields":{"opaque":1}}"#,
        r#"{"code":904,opaque:1}"#,
    ] {
        assert!(read(&json(header)).is_some() && kept(&json(header)).is_none(), "{header}");
    }
    let long = command(1, &"a".repeat(FRAME_BYTES_MAX));
    assert!(kept(&frame(&long, Serialization::Json)).is_none(), "too long to be kept");
}
