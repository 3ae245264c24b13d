//! What reading and writing frames costs: `cargo bench --bench wire`. Best of several rounds, nanoseconds.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement, printed")]
#![allow(clippy::disallowed_methods, reason = "it measures real time")]

use bytes::{Bytes, BytesMut};
use raft_namesrv::protocol::registration::{RegistrationHeader, parse_registration};
use raft_namesrv::protocol::{Reply, Request};
use raft_namesrv::wire::{self, Decoder, RemotingCommand, Serialization};
use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 15;

/// Runs `work` and prints the best round's time for one.
fn measure(what: &str, repeats: u32, mut work: impl FnMut()) {
    let best = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..repeats).for_each(|_| work());
            start.elapsed() / repeats
        })
        .min()
        .unwrap_or_default();
    println!("{what:<60} {:>10} ns", best.as_nanos());
}

fn look_up() -> RemotingCommand {
    RemotingCommand::request(105, 1_234_567)
        .with("topic", "OrderEvents")
        .with("acceptStandardJsonOnly", "true")
}

fn registration(topics: usize) -> RemotingCommand {
    let mut body = String::from(
        r#"{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1700000000000},"topicConfigTable":{"#,
    );
    for number in 0..topics {
        let comma = if number == 0 { "" } else { "," };
        write!(
            body,
            r#"{comma}"topic_{number:06}":{{"attributes":{{}},"order":false,"perm":6,"readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"topic_{number:06}","topicSysFlag":0,"writeQueueNums":8}}"#
        )
        .unwrap();
    }
    body.push_str(r#"},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}"#);
    let crc = crc32fast::hash(body.as_bytes()) & 0x7FFF_FFFF;
    RemotingCommand::request(103, 1)
        .with("brokerName", "broker-a")
        .with("brokerAddr", "10.1.2.3:10911")
        .with("clusterName", "DefaultCluster")
        .with("haServerAddr", "10.1.2.3:10912")
        .with("brokerId", "0")
        .with("compressed", "false")
        .with("bodyCrc32", &crc.to_string())
        .with_body(body)
}

fn main() {
    for serialization in [Serialization::Json, Serialization::RocketMq] {
        let mut frame = BytesMut::new();
        wire::encode(&look_up().head(), &[], serialization, &mut frame);
        let mut buffer = BytesMut::with_capacity(1024 * frame.len());
        measure(&format!("read a look-up, {serialization} header of {} bytes", frame.len()), 1024, || {
            // A decoder of a running connection: a new buffer when the old one is used up.
            if buffer.is_empty() {
                (0..1024).for_each(|_| buffer.extend_from_slice(&frame));
            }
            let command = Decoder::for_client().next(&mut buffer).unwrap().unwrap();
            black_box(Request::parse(&command).unwrap());
        });
        let reply = Reply::with_body(Bytes::from(vec![b'x'; 300]));
        let mut out = BytesMut::with_capacity(1 << 20);
        measure(&format!("write an answer with a body of 300 bytes, {serialization}"), 1024, || {
            if out.len() > 500_000 {
                out.clear();
            }
            reply.encode(black_box(7), serialization, &mut out);
        });
    }
    let command = registration(1_000);
    let size = command.body.len();
    measure("parse the header of a registration", 1024, || {
        black_box(RegistrationHeader::parse(black_box(&command)));
    });
    let header = RegistrationHeader::parse(&command);
    measure(&format!("checksum of 1,000 topics, {size} bytes"), 64, || {
        header.check_crc(black_box(&command.body)).unwrap()
    });
    measure("body digest of 1,000 topics", 64, || {
        black_box(header.body_digest(black_box(&command.body)));
    });
    measure("parse 1,000 topics", 16, || {
        black_box(parse_registration(black_box(&command)).unwrap());
    });
}
