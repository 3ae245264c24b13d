//! Any bytes through every parser that a client reaches: no panic, no memory for lengths that are only claimed, and the
//! same meaning wherever the bytes are split. The fuzz targets go on where these stop.

use crate::checks;
use crate::wire::{self, ExtFields, Language, RemotingCommand, Serialization};
use bytes::BytesMut;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use proptest::collection::vec;
use proptest::prelude::*;
use std::io::Write;
use storage::checks::seeds;

/// Bits of the texts that parsers look for, and anything between them.
fn text_of(bits: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let bit = prop_oneof![
        8 => prop::sample::select(bits).prop_map(|bit| bit.as_bytes().to_vec()),
        1 => any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        1 => vec(any::<u8>(), 0..4),
    ];
    vec(bit, 0..60).prop_map(|bits| bits.concat())
}

const JSON_BITS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "'",
    "\\",
    "\\u00",
    "\\ud83d",
    "null",
    "true",
    "1.5",
    " ",
    "\n",
    "\"code\":",
    "\"extFields\":{",
    "\"opaque\":",
    "\"remark\":\"x\"",
    "\"language\":\"GO\"",
    "\"a\":\"b\",",
    "k:1,",
];
const BODY_BITS: &[&str] = &[
    "{",
    "}",
    "},",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "null",
    "4",
    "\"6\"",
    " ",
    "\"topicConfigSerializeWrapper\":{",
    "\"topicConfigTable\":{",
    "\"t\":{\"topicName\":\"t\"},",
    "\"dataVersion\":{",
    "\"counter\":",
    "\"perm\":",
    "\"filterServerList\":[",
    "\"topicQueueMappingInfoMap\":{",
    "\"currIdMap\":{0:1}",
];
const PROPERTIES_BITS: &[&str] =
    &["a", "b", "=", ":", " ", "\t", "\\", "\\u00", "\n", "\r", "\\\n", "#", "!", "\\ud83d\\ude00", "\u{c}"];

fn command() -> impl Strategy<Value = (RemotingCommand, bool)> {
    let field = (".{0,8}", proptest::option::weighted(0.9, ".{1,12}"));
    let fields = proptest::option::of(vec(field, 0..6));
    let numbers = (any::<i16>(), any::<i32>(), any::<i32>(), any::<i16>(), 0u8..14);
    (numbers, proptest::option::of(".{1,12}"), fields, vec(any::<u8>(), 0..40), any::<bool>()).prop_map(
        |((code, opaque, flag, version, language), remark, fields, body, json)| {
            let mut command = RemotingCommand::request(code.into(), opaque).with_body(body);
            (command.flag, command.version, command.language) = (flag, version.into(), Language(language));
            command.remark = remark;
            command.ext =
                fields.map(|fields| fields.iter().map(|(k, v)| (&**k, v.as_deref())).collect::<ExtFields>());
            (command, json)
        },
    )
}

fn encoded((command, json): &(RemotingCommand, bool)) -> BytesMut {
    let serialization = if *json { Serialization::Json } else { Serialization::RocketMq };
    let mut out = BytesMut::new();
    wire::encode(&command.head(), &command.body, serialization, &mut out);
    out
}

/// Where the fuzz targets begin: valid bytes of each kind.
#[test]
fn seeds_pass() {
    let fields: ExtFields = [("topic", Some("t")), ("brokerId", Some("0"))].into_iter().collect();
    let mut request = RemotingCommand::request(105, 7).with_body(b"body".to_vec());
    request.ext = Some(fields);
    request.remark = Some("remark".into());
    let frames = [true, false].map(|json| encoded(&(request.clone(), json)).to_vec());
    // Length of the frame, length and kind of the header, header, body.
    let [json, binary] = frames.each_ref().map(|frame| frame[8..frame.len() - 4].to_vec());
    let body = br#"{"filterServerList":["f"],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":2},"topicConfigTable":{"t":{"topicName":"t","readQueueNums":4,"writeQueueNums":4,"perm":6,"topicSysFlag":0}},"topicQueueMappingInfoMap":{"t":{"topic":"t","bname":"b","totalQueues":2,"currIdMap":{0:1}}}}}"#;
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).unwrap();
    let bodies = [body.to_vec(), encoder.finish().unwrap()];
    let text = [b"a=b\nc : \\u0041\\\n d\n#no\n".to_vec()];

    frames.iter().for_each(|frame| checks::frames(frame));
    checks::header(Serialization::Json, &json);
    checks::header(Serialization::RocketMq, &binary);
    bodies.iter().for_each(|body| checks::registration(body));
    text.iter().for_each(|text| checks::properties_text(text));
    seeds::keep("frame", &frames).unwrap();
    seeds::keep("json_header", &[json]).unwrap();
    seeds::keep("binary_header", &[binary]).unwrap();
    seeds::keep("registration_body", &bodies).unwrap();
    seeds::keep("properties_text", &text).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..300)) {
        checks::frames(&bytes);
        checks::registration(&bytes);
        checks::properties_text(&bytes);
    }

    #[test]
    fn whole_frames_with_a_byte_changed(commands in vec(command(), 1..4), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes: Vec<u8> = commands.iter().flat_map(|command| encoded(command).to_vec()).collect();
        checks::frames(&bytes);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        checks::frames(&bytes);
    }

    #[test]
    fn proxy_headers(start in prop::sample::select(vec![&b"PROXY "[..], b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", b"\x16\x03\x01"]), rest in vec(any::<u8>(), 0..150)) {
        checks::frames(&[start, &rest].concat());
    }

    #[test]
    fn json_headers(bytes in text_of(JSON_BITS)) {
        checks::header(Serialization::Json, &bytes);
        checks::header(Serialization::Json, &[b"{", &bytes[..], b"}"].concat());
    }

    #[test]
    fn binary_headers(bytes in vec(prop_oneof![4 => Just(0u8), 1 => any::<u8>(), 1 => 0u8..20], 0..80)) {
        checks::header(Serialization::RocketMq, &bytes);
    }

    #[test]
    fn registration_bodies(bytes in text_of(BODY_BITS)) {
        checks::registration(&bytes);
        checks::registration(&[b"{\"topicConfigSerializeWrapper\":{", &bytes[..], b"}}"].concat());
    }

    #[test]
    fn registration_bodies_in_a_zlib_stream(bytes in vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>(), 1 => 0u8..8], 0..200)) {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&bytes).unwrap();
        checks::registration(&encoder.finish().unwrap());
    }

    #[test]
    fn properties_texts(bytes in text_of(PROPERTIES_BITS)) {
        checks::properties_text(&bytes);
    }

    #[test]
    fn what_is_written_reads_the_same(command in command()) {
        let mut bytes = encoded(&command);
        let read = wire::Decoder::for_client().next(&mut bytes).unwrap().unwrap();
        let (mut written, json) = command;
        // Nulls are left out, and a binary header without fields has none.
        written.ext = written.ext.map(|ext| ext.iter().filter(|(_, value)| value.is_some()).collect());
        written.ext = written.ext.filter(|ext| json || !ext.is_empty());
        written.serialization = read.serialization;
        prop_assert_eq!(read, written);
    }
}
