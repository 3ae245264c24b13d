//! An open connection to a peer: requests go out, replies come in by number.

use super::frame::{self, Frame, HEADER_BYTES, Kind};
use super::message::{self, Reply, Request};
use super::node_info::NodeInfo;
use super::stream::BoxedStream;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use storage::limits::PEER_FRAME_BYTES_MAX;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Frames that wait to be written on one connection, at either end.
pub(crate) const OUT_FRAMES_MAX: usize = 256;
/// A write that makes no progress for so long ends the connection.
const WRITE_STALL: Duration = Duration::from_secs(5);
/// Small frames are written together up to this many bytes.
const COALESCE_BYTES: usize = 64 << 10;

/// Why a call has no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// Nothing was sent: certainly not done.
    #[error("not reached: {0}")]
    NotSent(String),
    /// Sent, but no reply came: perhaps done.
    #[error("no answer: {0}")]
    NoReply(String),
}

/// How long a call may take.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    /// Until then.
    Deadline(Instant),
    /// As long as bytes move, or the peer reports that it works on the reply.
    Progress(Duration),
}

/// An open connection. Dropping the last handle closes it.
pub(crate) struct Connection {
    out: mpsc::Sender<Frame>,
    shared: Arc<Shared>,
    next: AtomicU64,
    /// What the peer stated in the handshake.
    pub(crate) info: NodeInfo,
}

struct Shared {
    /// Sorted: when the connection breaks, the calls learn of it in the order in which they were sent.
    pending: Mutex<BTreeMap<u64, oneshot::Sender<Vec<u8>>>>,
    opened: Instant,
    /// Milliseconds after `opened` when bytes last moved, either way.
    moved_ms: AtomicU64,
    /// Milliseconds after `opened` when bytes last came in.
    received_ms: AtomicU64,
    closed: CancellationToken,
}

impl Shared {
    fn moved(&self) {
        self.moved_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    fn received(&self) {
        self.received_ms.store(self.now_ms(), Ordering::Relaxed);
        self.moved();
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn at(&self, ms: &AtomicU64) -> Instant {
        self.opened + Duration::from_millis(ms.load(Ordering::Relaxed))
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, oneshot::Sender<Vec<u8>>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that was sent. Dropping it gives the reply up.
pub(crate) struct PendingCall<'a> {
    connection: &'a Connection,
    number: u64,
    reply: oneshot::Receiver<Vec<u8>>,
    limit: Limit,
    sent: Instant,
}

impl PendingCall<'_> {
    /// Waits for the reply. When it does not come in time and nothing else came for `stall`, the connection is closed.
    pub(crate) async fn reply(mut self, stall: Duration) -> Result<Reply, CallError> {
        let connection = self.connection;
        let shared = &connection.shared;
        tokio::select! {
            biased;
            bytes = &mut self.reply => {
                let bytes = bytes.map_err(|_| CallError::NoReply("the connection broke".into()))?;
                message::decode_reply(&bytes).map_err(|e| CallError::NoReply(e.to_string()))
            }
            () = shared.closed.cancelled() => Err(CallError::NoReply("the connection broke".into())),
            () = connection.expired(self.limit, self.sent) => {
                if shared.at(&shared.received_ms).elapsed() >= stall {
                    connection.close();
                }
                Err(CallError::NoReply("not in time".into()))
            }
        }
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        self.connection.shared.pending().remove(&self.number);
    }
}

impl Connection {
    /// A connection over a stream, after its handshake.
    pub(crate) fn new(
        stream: BoxedStream,
        info: NodeInfo,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        let (out, frames) = mpsc::channel(OUT_FRAMES_MAX);
        let shared = Arc::new(Shared {
            pending: Mutex::default(),
            opened: Instant::now(),
            moved_ms: AtomicU64::new(0),
            received_ms: AtomicU64::new(0),
            closed: stop.child_token(),
        });
        let for_writer = Arc::clone(&shared);
        tasks.spawn(async move {
            let moved = || for_writer.moved();
            tokio::select! {
                biased;
                () = for_writer.closed.cancelled() => {}
                _ = write_frames(writer, frames, moved) => {}
            }
            for_writer.closed.cancel();
        });
        let for_reader = Arc::clone(&shared);
        tasks.spawn(async move {
            tokio::select! {
                biased;
                () = for_reader.closed.cancelled() => {}
                _ = read_replies(reader, &for_reader) => {}
            }
            for_reader.closed.cancel();
            for_reader.pending().clear();
        });
        Self { out, shared, next: AtomicU64::new(0), info }
    }

    /// Whether it can still be used.
    pub(crate) fn is_open(&self) -> bool {
        !self.shared.closed.is_cancelled()
    }

    /// Ends it; calls under way get no reply.
    pub(crate) fn close(&self) {
        self.shared.closed.cancel();
    }

    /// Sends a request. Calls one after the other are sent in that order.
    pub(crate) async fn send(&self, request: &Request, limit: Limit) -> Result<PendingCall<'_>, CallError> {
        let body = message::encode_request(request).map_err(|e| CallError::NotSent(e.to_string()))?;
        if HEADER_BYTES + body.len() > PEER_FRAME_BYTES_MAX {
            let reason =
                format!("the message has {} bytes, at most {PEER_FRAME_BYTES_MAX} fit a frame", body.len());
            return Err(CallError::NotSent(reason));
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (tx, reply) = oneshot::channel();
        self.shared.pending().insert(number, tx);
        let call = PendingCall { connection: self, number, reply, limit, sent: Instant::now() };
        let frame = Frame { kind: Kind::Request, number, body };
        tokio::select! {
            biased;
            sent = self.out.send(frame) => {
                sent.map_err(|_| CallError::NotSent("the connection broke".into()))?;
            }
            () = self.expired(limit, call.sent) => {
                return Err(CallError::NotSent("the connection is busy".into()));
            }
        }
        Ok(call)
    }

    async fn expired(&self, limit: Limit, call_sent: Instant) {
        match limit {
            Limit::Deadline(deadline) => sleep_until(deadline).await,
            Limit::Progress(pause) => loop {
                let last = self.shared.at(&self.shared.moved_ms).max(call_sent);
                if last.elapsed() >= pause {
                    return;
                }
                sleep_until(last + pause).await;
            },
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
    }
}

/// Writes frames as they come, small ones together.
pub(crate) async fn write_frames<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut frames: mpsc::Receiver<Frame>,
    moved: impl Fn(),
) -> io::Result<()> {
    let mut buffer = Vec::new();
    while let Some(first) = frames.recv().await {
        buffer.clear();
        first.write_to(&mut buffer)?;
        while buffer.len() < COALESCE_BYTES
            && let Ok(next) = frames.try_recv()
        {
            next.write_to(&mut buffer)?;
        }
        frame::write(&mut writer, &buffer, WRITE_STALL, &moved).await?;
        if buffer.capacity() > 4 * COALESCE_BYTES {
            buffer = Vec::new();
        }
    }
    Ok(())
}

async fn read_replies<R: AsyncRead + Unpin>(reader: R, shared: &Shared) -> io::Result<()> {
    let mut reader = tokio::io::BufReader::new(reader);
    loop {
        let bytes = frame::read(&mut reader, PEER_FRAME_BYTES_MAX, || shared.received()).await?;
        let frame = Frame::parse(&bytes)?;
        if frame.kind == Kind::Reply
            && let Some(call) = shared.pending().remove(&frame.number)
        {
            // The caller may just have given up.
            let _ = call.send(frame.body);
        }
    }
}
