//! Every recorded and captured frame through the code that reads and writes frames.

use super::data::{self, Frame};
use super::frame::Decoded;
use bytes::{Buf, BytesMut};
use raft_namesrv::protocol::Request;
use raft_namesrv::wire::{self, Decoder, RemotingCommand, Serialization};

const FOLDERS: [&str; 2] = ["json", "rocketmq"];

struct Recorded {
    from: String,
    frame: Frame,
    is_response: bool,
}

/// Every well-formed frame of all recordings and captures.
fn recorded() -> Vec<Recorded> {
    let mut all = Vec::new();
    for folder in FOLDERS {
        for name in data::names(folder) {
            for step in data::load(folder, &name).steps {
                let from = format!("{folder}/{name}: {}", step.desc);
                let answers = step.answer.into_iter().chain(step.variants.into_values()).chain(step.answers);
                all.extend(answers.map(|frame| Recorded { from: from.clone(), frame, is_response: true }));
                let requests = step.send.into_iter().chain(step.push);
                all.extend(requests.map(|frame| Recorded { from: from.clone(), frame, is_response: false }));
            }
        }
    }
    all.extend(data::captured().into_iter().map(|captured| Recorded {
        from: format!("capture of {}", captured.peer),
        frame: captured.frame,
        is_response: !captured.to_server,
    }));
    assert!(all.len() > 2_000, "only {} frames", all.len());
    all
}

fn decode(bytes: &[u8]) -> RemotingCommand {
    let mut buffer = BytesMut::from(bytes);
    let command = Decoder::for_client().next(&mut buffer).unwrap().unwrap();
    assert!(!buffer.has_remaining());
    command
}

/// Code, flag, opaque, serialization, fields, remark and body.
type Parts = (i64, i64, i64, String, Vec<(String, String)>, Option<String>, Vec<u8>);

/// The parts of a command that the independent reader gives, too.
fn parts_of(command: &RemotingCommand) -> Parts {
    let mut ext: Vec<_> = command.ext.iter().flat_map(|ext| ext.iter()).collect();
    ext.sort_by_key(|(key, _)| *key);
    (
        command.code.into(),
        command.flag.into(),
        command.opaque.into(),
        command.serialization.to_string(),
        ext.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned()))).collect(),
        command.remark.clone(),
        command.body.to_vec(),
    )
}

fn parts_of_recorded(decoded: Decoded) -> Parts {
    // An empty text of a binary header reads as null.
    let drops_empty = decoded.serialization == "ROCKETMQ";
    let ext = decoded.ext.into_iter().filter(|(_, value)| !(drops_empty && value.is_empty())).collect();
    let serialization = decoded.serialization.to_owned();
    (decoded.code, decoded.flag, decoded.opaque, serialization, ext, decoded.remark, decoded.body)
}

#[test]
fn every_frame_reads_as_the_independent_reader_has_it() {
    for recorded in recorded() {
        let ours = parts_of(&decode(&recorded.frame.bytes()));
        assert_eq!(ours, parts_of_recorded(recorded.frame.decoded()), "{}", recorded.from);
    }
}

#[test]
fn every_answer_of_java_is_written_as_java_writes_it() {
    let mut same = 0;
    for recorded in recorded().into_iter().filter(|recorded| recorded.is_response) {
        let bytes = recorded.frame.bytes();
        let mut command = decode(&bytes);
        if command.serialization == Serialization::RocketMq {
            // An empty text was written, and reads as null.
            let fields = command.ext.take();
            command.ext =
                fields.map(|ext| ext.iter().map(|(key, value)| (key, value.or(Some("")))).collect());
        }
        let mut out = BytesMut::new();
        wire::encode(&command.head(), &command.body, command.serialization, &mut out);
        assert_eq!(
            String::from_utf8_lossy(&out),
            String::from_utf8_lossy(&bytes),
            "{}: {command:?}",
            recorded.from
        );
        assert_eq!(&out[..], &bytes[..]);
        same += 1;
    }
    assert!(same > 1_000, "only {same} answers");
}

#[test]
fn every_request_that_java_carries_out_is_understood() {
    for recorded in recorded().into_iter().filter(|recorded| !recorded.is_response) {
        let command = decode(&recorded.frame.bytes());
        match Request::parse(&command) {
            Ok(Request::RegisterBroker(_)) => {}
            Ok(Request::Unsupported(code)) => {
                let known = [0, 10, 34, 107, 220, 905, 999, 1001, 1005, 30000, -1, 70000];
                assert!(known.contains(&code), "{}: code {code}", recorded.from);
            }
            Ok(_) => {}
            Err(reply) => assert_eq!(reply.code, 1, "{}", recorded.from),
        }
    }
}

#[test]
fn a_stream_of_all_frames_may_be_split_anywhere() {
    let frames: Vec<Vec<u8>> =
        recorded().iter().map(|recorded| recorded.frame.bytes()).filter(|f| f.len() < 2_000).collect();
    for chunk_bytes in [1, 7, 12, 1021] {
        let stream: Vec<u8> = frames.iter().take(200).flatten().copied().collect();
        let (mut decoder, mut buffer, mut commands) =
            (Decoder::new(wire::FRAME_MAX_BYTES), BytesMut::new(), Vec::new());
        for chunk in stream.chunks(chunk_bytes) {
            buffer.extend_from_slice(chunk);
            while let Some(command) = decoder.next(&mut buffer).unwrap() {
                commands.push(command);
            }
        }
        let expected: Vec<RemotingCommand> = frames.iter().take(200).map(|bytes| decode(bytes)).collect();
        assert_eq!(commands, expected);
    }
}

#[test]
fn both_serializations_say_the_same() {
    for recorded in recorded() {
        let command = decode(&recorded.frame.bytes());
        let other = match command.serialization {
            Serialization::Json => Serialization::RocketMq,
            Serialization::RocketMq => Serialization::Json,
        };
        // A binary header has 16 bits for the code, and no empty texts.
        let fits = i16::try_from(command.code).is_ok();
        let mut texts = command
            .ext
            .iter()
            .flat_map(|ext| ext.iter())
            .map(|(_, value)| value)
            .chain([command.remark.as_deref()]);
        if !fits || texts.any(|text| text == Some("")) {
            continue;
        }
        let mut out = BytesMut::new();
        wire::encode(&command.head(), &command.body, other, &mut out);
        let (there, here) = (parts_of(&decode(&out)), parts_of(&command));
        assert_eq!(
            (there.0, there.1, there.2, there.4, there.5, there.6),
            (here.0, here.1, here.2, here.4, here.5, here.6)
        );
    }
}
