//! A client, or a broker, as it is on the wire: one connection to one node.

use crate::process::PATIENCE;
use bytes::BytesMut;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use raft_namesrv::wire::{Decoder, RemotingCommand, codes::request as code, encode};
use serde_json::json;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicI32, Ordering};

static OPAQUE: AtomicI32 = AtomicI32::new(1);

/// A request with a number of its own.
pub(crate) fn request(code: i32, fields: &[(&str, &str)]) -> RemotingCommand {
    let command = RemotingCommand::request(code, OPAQUE.fetch_add(1, Ordering::Relaxed));
    fields.iter().fold(command, |command, (key, value)| command.with(key, value))
}

/// REGISTER_BROKER of a broker in cluster `C` with these topics.
pub(crate) fn registration(name: &str, id: &str, address: &str, topics: &[&str]) -> RemotingCommand {
    registration_in("C", name, id, address, topics)
}

/// The same in another cluster.
pub(crate) fn registration_in(
    cluster: &str,
    name: &str,
    id: &str,
    address: &str,
    topics: &[&str],
) -> RemotingCommand {
    let config = |topic: &&str| {
        let config = json!({
            "topicName": topic, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicSysFlag": 0,
            "topicFilterType": "SINGLE_TAG", "order": false, "attributes": {},
        });
        ((*topic).to_owned(), config)
    };
    let topics: serde_json::Map<_, _> = topics.iter().map(config).collect();
    let version = json!({"counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000_i64});
    let table = json!({"dataVersion": version, "topicConfigTable": topics});
    let body = json!({"filterServerList": [], "topicConfigSerializeWrapper": table});
    let fields = [
        ("brokerName", name),
        ("brokerId", id),
        ("brokerAddr", address),
        ("clusterName", cluster),
        ("haServerAddr", address),
    ];
    request(code::REGISTER_BROKER, &fields).with_body(body.to_string().into_bytes())
}

/// REGISTER_BROKER of a master with these topics, in a compressed body.
pub(crate) fn compressed_registration(
    name: &str,
    topics: impl ExactSizeIterator<Item = String>,
) -> RemotingCommand {
    let mut body = ZlibEncoder::new(Vec::new(), Compression::fast());
    let number = |body: &mut ZlibEncoder<Vec<u8>>, number: usize| {
        body.write_all(&u32::try_from(number).unwrap().to_be_bytes()).unwrap();
    };
    let part = |body: &mut ZlibEncoder<Vec<u8>>, bytes: &[u8]| {
        number(body, bytes.len());
        body.write_all(bytes).unwrap();
    };
    part(&mut body, br#"{"counter":1,"stateVersion":0,"timestamp":1700000000000}"#);
    number(&mut body, topics.len());
    for topic in topics {
        part(&mut body, format!("{topic} 4 4 6 SINGLE_TAG {{}}").as_bytes());
    }
    part(&mut body, b"[]");
    number(&mut body, 0);
    let address = format!("{name}.test:10911");
    let fields = [
        ("brokerName", name),
        ("brokerId", "0"),
        ("brokerAddr", &address),
        ("clusterName", "C"),
        ("haServerAddr", &address),
        ("compressed", "true"),
    ];
    request(code::REGISTER_BROKER, &fields).with_body(body.finish().unwrap())
}

/// A connection to a node.
pub(crate) struct Client {
    stream: TcpStream,
    decoder: Decoder,
    received: BytesMut,
}

impl Client {
    pub(crate) fn connect(to: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, decoder: Decoder::for_client(), received: BytesMut::new() })
    }

    pub(crate) fn send(&mut self, command: &RemotingCommand) -> io::Result<()> {
        let mut out = BytesMut::new();
        encode(&command.head(), &command.body, command.serialization, &mut out);
        self.stream.write_all(&out)
    }

    /// The next answer.
    pub(crate) fn next(&mut self) -> io::Result<RemotingCommand> {
        loop {
            if let Some(answer) = self.decoder.next(&mut self.received).unwrap() {
                return Ok(answer);
            }
            let mut buffer = [0; 8192];
            match self.stream.read(&mut buffer)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                read => self.received.extend_from_slice(&buffer[..read]),
            }
        }
    }

    /// Whether there is neither an answer nor a close now.
    pub(crate) fn is_quiet(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        self.received.is_empty() && peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// Sends a request and takes its answer.
    pub(crate) fn ask(&mut self, command: &RemotingCommand) -> io::Result<RemotingCommand> {
        self.send(command)?;
        let answer = self.next()?;
        assert_eq!(answer.opaque, command.opaque, "an answer to another request");
        Ok(answer)
    }

    /// As `ask`, and the answer must be a success.
    pub(crate) fn done(&mut self, command: &RemotingCommand) -> RemotingCommand {
        let answer = self.ask(command).unwrap();
        assert_eq!((answer.code, answer.remark.as_deref()), (0, None), "code {}", command.code);
        answer
    }
}
