//! Replays a recording against servers.

use super::compare::compare;
use super::data::{Expect, Op, Recording, Step, unhex};
use super::frame::{self, Decoded};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);
/// How far a member may be behind the one that was written through.
const OTHER_MEMBER: Duration = Duration::from_millis(500);
/// Pause between tries of a step that may be tried again.
const PAUSE: Duration = Duration::from_millis(50);
/// Codes that only read.
const READS: [i64; 13] = [101, 105, 106, 206, 219, 224, 304, 311, 312, 313, 319, 322, 901];

/// Replays all steps; connections are spread over the servers in the order of their first use. Gives what differs.
pub(super) async fn replay(recording: &Recording, servers: &[SocketAddr]) -> Vec<String> {
    let mut replay = Replay::new(servers);
    let mut differences = Vec::new();
    let mut dead = 0;
    for (number, step) in recording.steps.iter().enumerate() {
        if dead == 3 {
            differences.push("the rest is left out: three steps got no answer or no connection".to_owned());
            break;
        }
        let found = replay.step(step).await;
        dead += usize::from(
            found.iter().any(|text| text.starts_with("no answer") || text.starts_with("connection:")),
        );
        differences.extend(found.iter().map(|text| format!("step {} ({}): {text}", number + 1, step.desc)));
    }
    differences.extend(replay.leftovers().await);
    differences
}

struct Replay {
    servers: Vec<SocketAddr>,
    /// Names of connections in the order of their first use.
    order: Vec<String>,
    connections: BTreeMap<String, Connection>,
    listeners: BTreeMap<String, Listener>,
    /// The server that took the last write.
    written_through: Option<SocketAddr>,
}

impl Replay {
    fn new(servers: &[SocketAddr]) -> Self {
        Self {
            servers: servers.to_vec(),
            order: Vec::new(),
            connections: BTreeMap::new(),
            listeners: BTreeMap::new(),
            written_through: None,
        }
    }

    async fn step(&mut self, step: &Step) -> Vec<String> {
        let window = |default: u64| Duration::from_millis(step.within_ms.or(step.for_ms).unwrap_or(default));
        match step.op {
            Op::Request => self.request(step).await,
            Op::Raw => self.raw(step).await,
            Op::Close => {
                self.connections.remove(&step.conn);
                Vec::new()
            }
            Op::Sleep => {
                sleep(Duration::from_millis(step.ms.unwrap())).await;
                Vec::new()
            }
            Op::Closed => self.closed(&step.conn, window(3000)).await,
            Op::Quiet => self.quiet(&step.conn, window(300)).await,
            Op::Listen => {
                let listener = Listener::bind(step.addr.as_deref().unwrap()).await;
                self.listeners.insert(step.listener.clone(), listener);
                Vec::new()
            }
            Op::Push => {
                let expected = step.push.as_ref().unwrap().decoded();
                let pushed = self.listener(step).next(window(3000)).await;
                let free = [step.volatile.clone(), vec!["opaque".to_owned()]].concat();
                pushed.map_or_else(
                    || vec!["no pushed frame came".to_owned()],
                    |came| compare(&expected, &came, &free, false),
                )
            }
            Op::NoPush => {
                let pushed = self.listener(step).next(window(700)).await;
                pushed.map(|came| format!("a pushed frame came: {came:?}")).into_iter().collect()
            }
        }
    }

    fn server(&mut self, conn: &str) -> SocketAddr {
        let known = self.order.iter().position(|name| name == conn);
        let place = known.unwrap_or_else(|| {
            self.order.push(conn.to_owned());
            self.order.len() - 1
        });
        self.servers[place % self.servers.len()]
    }

    async fn connection(&mut self, conn: &str) -> io::Result<&mut Connection> {
        let server = self.server(conn);
        if !self.connections.contains_key(conn) {
            self.connections.insert(conn.to_owned(), Connection::open(server).await?);
        }
        Ok(self.connections.get_mut(conn).unwrap())
    }

    fn listener(&mut self, step: &Step) -> &mut Listener {
        self.listeners.get_mut(&step.listener).unwrap()
    }

    /// How long a step may be tried again. A read at another member than the one last written through may be a moment
    /// behind; at the same one it must fit at once.
    fn patience(&mut self, step: &Step, code: i64) -> Duration {
        let server = self.server(&step.conn);
        if !READS.contains(&code) {
            self.written_through = Some(server);
        } else if step.within_ms.is_none() && self.written_through != Some(server) {
            return OTHER_MEMBER;
        }
        Duration::from_millis(step.within_ms.unwrap_or_default())
    }

    async fn request(&mut self, step: &Step) -> Vec<String> {
        let bytes = step.send.as_ref().unwrap().bytes();
        let sent = frame::decode(&bytes).unwrap();
        let expected = expected(step, sent.opaque);
        let deadline = Instant::now() + self.patience(step, sent.code);
        loop {
            let differences = match self.exchange(&step.conn, &bytes, !expected.is_empty()).await {
                Ok(None) if expected.is_empty() => Vec::new(),
                Ok(None) => vec![format!("no answer within {ANSWER:?}")],
                Ok(Some(came)) => nearest(
                    expected.iter().map(|(answer, free)| compare(answer, &came, free, step.properties)),
                ),
                Err(error) => {
                    self.connections.remove(&step.conn);
                    vec![format!("connection: {error}")]
                }
            };
            if differences.is_empty() || Instant::now() >= deadline {
                return differences;
            }
            sleep(PAUSE).await;
        }
    }

    async fn exchange(&mut self, conn: &str, bytes: &[u8], answered: bool) -> io::Result<Option<Decoded>> {
        let connection = self.connection(conn).await?;
        connection.stream.write_all(bytes).await?;
        if answered { connection.receive(ANSWER).await } else { Ok(None) }
    }

    /// Writes bytes as they are; then answers come in any order, or a close, or nothing.
    async fn raw(&mut self, step: &Step) -> Vec<String> {
        let expect = step.expect.unwrap();
        if let Err(error) = self.write_parts(step).await
            && expect != Expect::Closed
        {
            self.connections.remove(&step.conn);
            return vec![format!("connection: {error}")];
        }
        match expect {
            Expect::Answers => self.answers(step).await,
            Expect::Closed => {
                self.closed(&step.conn, Duration::from_millis(step.within_ms.unwrap_or(3000))).await
            }
            Expect::Quiet => self.quiet(&step.conn, Duration::from_millis(step.for_ms.unwrap_or(300))).await,
        }
    }

    async fn write_parts(&mut self, step: &Step) -> io::Result<()> {
        let connection = self.connection(&step.conn).await?;
        for (number, part) in step.parts.iter().enumerate() {
            if number > 0 {
                sleep(PAUSE).await;
            }
            connection.stream.write_all(&unhex(part)).await?;
        }
        Ok(())
    }

    async fn answers(&mut self, step: &Step) -> Vec<String> {
        let mut came = Vec::new();
        for _ in &step.answers {
            match self.connection(&step.conn).await.unwrap().receive(ANSWER).await {
                Ok(Some(answer)) => came.push(answer),
                Ok(None) => {
                    return vec![format!("no answer but the first {} of {}", came.len(), step.answers.len())];
                }
                Err(error) => {
                    self.connections.remove(&step.conn);
                    return vec![format!("connection: {error}")];
                }
            }
        }
        came.sort_by_key(|answer| answer.opaque);
        let pairs = step.answers.iter().zip(&came);
        pairs
            .flat_map(|(expected, came)| compare(&expected.decoded(), came, &step.volatile, step.properties))
            .collect()
    }

    /// The server closes the connection in time.
    async fn closed(&mut self, conn: &str, within: Duration) -> Vec<String> {
        let Ok(connection) = self.connection(conn).await else { return Vec::new() };
        match connection.receive(within).await {
            Ok(Some(came)) => vec![format!("expected a close, got {came:?}")],
            Ok(None) => vec!["expected a close, the connection stayed open".to_owned()],
            Err(_) => {
                self.connections.remove(conn);
                Vec::new()
            }
        }
    }

    /// Nothing comes, and the connection stays open.
    async fn quiet(&mut self, conn: &str, during: Duration) -> Vec<String> {
        match self.connection(conn).await.unwrap().receive(during).await {
            Ok(Some(came)) => vec![format!("expected nothing, got {came:?}")],
            Ok(None) => Vec::new(),
            Err(error) => {
                self.connections.remove(conn);
                vec![format!("expected nothing, but: {error}")]
            }
        }
    }

    /// Frames without a request.
    async fn leftovers(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        for (name, connection) in &mut self.connections {
            if let Ok(Some(came)) = connection.receive(Duration::from_millis(20)).await {
                found.push(format!("unasked on connection {name}: {came:?}"));
            }
        }
        found
    }
}

/// The answers that are right, each with what is free in it: the one that this project gives on purpose, or any that
/// some version of Java gives. None for a oneway request.
fn expected(step: &Step, opaque: i64) -> Vec<(Decoded, Vec<String>)> {
    if let Some(ours) = &step.ours {
        return vec![(
            Decoded { opaque, ..ours.answer.decoded() },
            [&step.volatile[..], &ours.volatile].concat(),
        )];
    }
    let recorded = step.answer.iter().chain(step.variants.values());
    recorded.map(|answer| (Decoded { opaque, ..answer.decoded() }, step.volatile.clone())).collect()
}

/// The fewest differences.
fn nearest(all: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    all.min_by_key(Vec::len).unwrap_or_default()
}

/// A connection that reads whole frames.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(server: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// The next frame; `None` when none comes in time, an error when the connection is closed.
    async fn receive(&mut self, within: Duration) -> io::Result<Option<Decoded>> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(length) =
                self.buffer.first_chunk().map(|bytes| u32::from_be_bytes(*bytes) as usize + 4)
                && self.buffer.len() >= length
            {
                let frame: Vec<u8> = self.buffer.drain(..length).collect();
                return frame::decode(&frame).map(Some).map_err(io::Error::other);
            }
            let Ok(read) = timeout_at(deadline, self.stream.read_buf(&mut self.buffer)).await else {
                return Ok(None);
            };
            if read? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Plays the port of a broker: takes frames that the server pushes over connections that it opens.
struct Listener {
    frames: mpsc::UnboundedReceiver<Decoded>,
    _tasks: JoinSet<()>,
}

impl Listener {
    /// The address stands in the recording, so when another run on this machine has it, this one waits.
    async fn listen(address: &str) -> TcpListener {
        let give_up = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            match TcpListener::bind(address).await {
                Ok(listener) => return listener,
                Err(e)
                    if e.kind() != std::io::ErrorKind::AddrInUse || tokio::time::Instant::now() > give_up =>
                {
                    panic!("cannot listen at {address}: {e}")
                }
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
            }
        }
    }

    async fn bind(address: &str) -> Self {
        let listener = Self::listen(address).await;
        let (sender, frames) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut readers = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let sender = sender.clone();
                readers.spawn(async move {
                    let mut connection = Connection { stream, buffer: Vec::new() };
                    while let Ok(received) = connection.receive(Duration::from_secs(60)).await {
                        if let Some(frame) = received {
                            let _ = sender.send(frame);
                        }
                    }
                });
            }
        });
        Self { frames, _tasks: tasks }
    }

    async fn next(&mut self, within: Duration) -> Option<Decoded> {
        timeout_at(Instant::now() + within, self.frames.recv()).await.ok().flatten()
    }
}
