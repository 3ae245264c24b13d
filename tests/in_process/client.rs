//! A client or broker as tests need it: raw bytes when they matter, requests and answers otherwise.

use super::nodes::PATIENCE;
use bytes::BytesMut;
use raft_namesrv::wire::{Decoder, RemotingCommand, codes::request as code, encode};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI32, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A connection to a node.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    decoder: Decoder,
    received: BytesMut,
}

static OPAQUE: AtomicI32 = AtomicI32::new(1);

/// A request with a number of its own.
pub(crate) fn request(code: i32, fields: &[(&str, &str)]) -> RemotingCommand {
    let command = RemotingCommand::request(code, OPAQUE.fetch_add(1, Ordering::Relaxed));
    fields.iter().fold(command, |command, (key, value)| command.with(key, value))
}

/// Its bytes.
pub(crate) fn bytes_of(command: &RemotingCommand) -> Vec<u8> {
    let mut out = BytesMut::new();
    encode(&command.head(), &command.body, command.serialization, &mut out);
    out.to_vec()
}

impl Client {
    pub(crate) async fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, decoder: Decoder::for_client(), received: BytesMut::new() }
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn send(&mut self, command: &RemotingCommand) {
        self.send_bytes(&bytes_of(command)).await;
    }

    /// The next answer; `None` when the server closed the connection.
    pub(crate) async fn next(&mut self) -> Option<RemotingCommand> {
        loop {
            if let Some(command) = self.decoder.next(&mut self.received).unwrap() {
                return Some(command);
            }
            let read = timeout(PATIENCE, self.stream.read_buf(&mut self.received)).await;
            if read.expect("neither an answer nor a close").unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// Sends a request and takes the next answer, which must be its own.
    pub(crate) async fn ask(&mut self, command: &RemotingCommand) -> RemotingCommand {
        self.send(command).await;
        let answer = self.next().await.expect("the server closed the connection");
        assert_eq!(answer.opaque, command.opaque, "an answer to another request");
        assert_eq!(answer.flag, 1);
        answer
    }

    /// As `ask`, and the answer must be a success.
    pub(crate) async fn done(&mut self, command: &RemotingCommand) -> RemotingCommand {
        let answer = self.ask(command).await;
        assert_eq!((answer.code, answer.remark.as_deref()), (0, None), "code {}", command.code);
        answer
    }

    /// The route of a topic; the code when there is none.
    pub(crate) async fn route(&mut self, topic: &str) -> Result<Value, i32> {
        let answer = self.ask(&request(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", topic)])).await;
        if answer.code == 0 { Ok(json_of(&answer)) } else { Err(answer.code) }
    }

    /// Whether the server closes the connection without another answer.
    pub(crate) async fn is_closed(&mut self) -> bool {
        self.next().await.is_none()
    }
}

/// An answer's body.
pub(crate) fn json_of(answer: &RemotingCommand) -> Value {
    serde_json::from_slice(&answer.body).unwrap()
}

/// A master broker with topics `<name>_t0`, `<name>_t1`, …
#[derive(Debug, Clone)]
pub(crate) struct Broker {
    pub(crate) cluster: String,
    pub(crate) name: String,
    pub(crate) id: i64,
    pub(crate) address: String,
    pub(crate) topics: Vec<(String, i32)>,
    pub(crate) counter: i64,
    pub(crate) state_version: i64,
    pub(crate) timeout_ms: Option<i64>,
}

impl Broker {
    pub(crate) fn new(name: &str, topics: usize) -> Self {
        Self {
            cluster: "C".into(),
            name: name.into(),
            id: 0,
            address: format!("{name}.test:10911"),
            topics: (0..topics).map(|n| (format!("{name}_t{n}"), 4)).collect(),
            counter: 1,
            state_version: 0,
            timeout_ms: None,
        }
    }

    fn data_version(&self) -> Value {
        json!({"counter": self.counter, "stateVersion": self.state_version, "timestamp": 1_700_000_000_000i64})
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        let topics: serde_json::Map<String, Value> = self
            .topics
            .iter()
            .map(|(topic, queues)| {
                let config = json!({
                    "attributes": {}, "order": false, "perm": 6, "readQueueNums": queues,
                    "topicFilterType": "SINGLE_TAG", "topicName": topic, "topicSysFlag": 0,
                    "writeQueueNums": queues,
                });
                (topic.clone(), config)
            })
            .collect();
        let wrapper = json!({
            "dataVersion": self.data_version(), "topicConfigTable": topics,
            "topicQueueMappingDetailMap": {}, "topicQueueMappingInfoMap": {},
        });
        json!({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}).to_string().into_bytes()
    }

    /// REGISTER_BROKER with any body.
    pub(crate) fn register_with(&self, body: Vec<u8>) -> RemotingCommand {
        let crc = (crc32fast::hash(&body) & 0x7FFF_FFFF).to_string();
        let command = request(
            code::REGISTER_BROKER,
            &[
                ("brokerName", &self.name),
                ("brokerAddr", &self.address),
                ("clusterName", &self.cluster),
                ("haServerAddr", &format!("{}:10912", self.name)),
                ("brokerId", &self.id.to_string()),
                ("compressed", "false"),
                ("bodyCrc32", &crc),
            ],
        );
        let command = match self.timeout_ms {
            Some(ms) => command.with("heartbeatTimeoutMillis", &ms.to_string()),
            None => command,
        };
        command.with_body(body)
    }

    pub(crate) fn register(&self) -> RemotingCommand {
        self.register_with(self.body())
    }

    fn identity(&self, code: i32) -> RemotingCommand {
        request(
            code,
            &[
                ("brokerName", &self.name),
                ("brokerAddr", &self.address),
                ("clusterName", &self.cluster),
                ("brokerId", &self.id.to_string()),
            ],
        )
    }

    pub(crate) fn unregister(&self) -> RemotingCommand {
        self.identity(code::UNREGISTER_BROKER)
    }

    pub(crate) fn heartbeat(&self) -> RemotingCommand {
        self.identity(code::BROKER_HEARTBEAT)
    }

    pub(crate) fn query_data_version(&self) -> RemotingCommand {
        self.identity(code::QUERY_DATA_VERSION).with_body(self.data_version().to_string().into_bytes())
    }
}
